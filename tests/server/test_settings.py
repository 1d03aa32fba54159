"""The tree of settings: defaults, limits, and what a service changes."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from dragoman.server.settings import BrokerSettings, CredentialsSection


def test_defaults_bind_to_this_machine_only() -> None:
    listen = BrokerSettings().listen
    assert all("127.0.0.1" in e for e in (listen.nfp, listen.dcp, listen.memo))


def test_a_section_of_a_dialect_is_the_dialects_own_class() -> None:
    settings = BrokerSettings.model_validate({"nfp": {"patience": 7}})
    assert (settings.nfp.patience, settings.nfp.hold) == (7.0, 15.0)


@pytest.mark.parametrize(
    "given", [{"nfp": {"patience": -1}}, {"dcp": {"faults": "loud"}}, {"ncl": {"namespace": ""}}]
)
def test_the_limits_of_a_dialect_are_enforced(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BrokerSettings.model_validate(given)


def test_an_endpoint_is_completed_and_checked() -> None:
    settings = BrokerSettings.model_validate({"listen": {"nfp": "127.0.0.1:0", "http": "[::1]:0"}})
    assert (settings.listen.nfp, settings.listen.http) == ("tcp://127.0.0.1:0", "http://[::1]:0")
    with pytest.raises(ValidationError, match="'nonsense' is not an endpoint"):
        BrokerSettings.model_validate({"listen": {"nfp": "nonsense"}})


def test_credentials_are_whole_and_name_listeners() -> None:
    with pytest.raises(ValidationError, match="must be set together"):
        CredentialsSection(certificate=Path("c"))
    with pytest.raises(ValidationError, match="unknown listener 'zzz'"):
        CredentialsSection(plain=("zzz",))


def test_only_files_that_clients_put_have_a_time_to_live() -> None:
    def read(keep_days: dict[str, float]) -> BrokerSettings:
        files = {"roots": {"drop": "/srv/drop"}, "writable": ["drop"], "keep_days": keep_days}
        return BrokerSettings.model_validate({"files": files})

    assert read({"drop": 7}).files.keep_days == {"drop": 7.0}
    with pytest.raises(ValidationError, match=r"keep_days: other is not in files\.writable"):
        read({"other": 7})
    with pytest.raises(ValidationError, match="greater than 0"):
        read({"drop": 0})
