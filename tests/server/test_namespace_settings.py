"""Settings of namespaces: what is taken over, what is not, and what cannot be."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.server.namespace_settings import SHARED, all_namespaces, find_namespace, folder_of
from dragoman.server.settings_sources import load

OWN = {"acme": {"listen": {"nfp": "127.0.0.1:0"}}}


def test_a_namespace_has_its_own_folder_and_only_its_own_listeners(tmp_path: Path) -> None:
    found = all_namespaces(load(data=tmp_path, namespaces=OWN))
    assert list(found) == ["default", "acme"]
    acme = found["acme"]
    assert acme.data == tmp_path / "namespaces" / "acme" == folder_of(found["default"], "acme")
    on = {name: at for name, at in acme.listen.model_dump().items() if at != "off"}
    assert on == {"nfp": "tcp://127.0.0.1:0"}


def test_a_namespace_takes_over_how_the_broker_works_and_nothing_of_a_tenant(
    tmp_path: Path,
) -> None:
    settings = load(
        data=tmp_path,
        drain=3.0,
        services={"math": {"patience": 5}},
        schedules={"tick": {"service": "math", "task": "t", "every": 60}},
        inventory={"*": {"secret": 1}},
        files={"roots": {"": str(tmp_path)}},
        namespaces=OWN,
    )
    acme = find_namespace(settings, "acme")
    assert acme.drain == 3.0
    assert [acme.services, acme.schedules, acme.inventory, acme.files.roots] == [{}] * 4


def test_its_own_file_wins_and_the_environment_is_not_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "acme.toml"
    file.write_text("drain = 7\n[services.math]\npatience = 9\n[limits]\nfinished_jobs = 5\n")
    monkeypatch.setenv("DRAGOMAN_DRAIN", "2")
    settings = load(data=tmp_path, namespaces={"acme": {"config": str(file), **OWN["acme"]}})
    acme = find_namespace(settings, "acme")
    assert (settings.drain, acme.drain) == (2.0, 7.0)
    assert acme.services["math"].patience == 9
    assert acme.limits.finished_jobs == 5 != settings.limits.finished_jobs


def secured(tmp_path: Path, **namespaces: Any) -> Any:
    return load(data=tmp_path, security={"enabled": True}, namespaces=namespaces)


def test_with_security_a_namespace_shares_the_listeners_that_prove_keys(tmp_path: Path) -> None:
    acme = find_namespace(secured(tmp_path, acme={}), "acme")
    on = {name for name, at in acme.listen.model_dump().items() if at == SHARED}
    # There is no CURVE key and no certificate; HTTP has tokens, and NATS has nkeys.
    assert on == {"http", "nats"}
    assert acme.security.enabled


def test_an_external_nats_server_is_not_shared(tmp_path: Path) -> None:
    listen = {"nats": "nats://far:4222"}
    settings = load(
        data=tmp_path, listen=listen, security={"enabled": True}, namespaces={"acme": {}}
    )
    assert find_namespace(settings, "acme").listen.nats == "off"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"namespaces": {"acme": {}}}, "no peer could reach the namespace 'acme'"),
        ({"namespaces": {"Acme!": OWN["acme"]}}, "no name for a namespace"),
        ({"namespaces": {"default": OWN["acme"]}}, "no name for a namespace"),
        ({"namespaces": OWN, "cluster": {"name": "main", "node": "a"}}, "cluster"),
        ({"namespaces": {"acme": {"listen": {"mesh": "127.0.0.1:0"}}}}, "mesh"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        all_namespaces(load(data=tmp_path, **flags))


@pytest.mark.parametrize("line", ['data = "elsewhere"', '[cluster]\nname = "main"\nnode = "a"'])
def test_what_belongs_to_the_process_is_refused_in_its_file(tmp_path: Path, line: str) -> None:
    file = tmp_path / "acme.toml"
    file.write_text(line)
    settings = load(data=tmp_path, namespaces={"acme": {"config": str(file), **OWN["acme"]}})
    with pytest.raises(ValueError, match="is of the whole broker"):
        all_namespaces(settings)


def test_issuers_need_an_http_listener_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "acme.toml"
    file.write_text('[security.issuers.corp]\nissuer = "https://id.example"\naudience = "d"\n')
    settings = secured(tmp_path, acme={"config": str(file)})
    with pytest.raises(ValueError, match="its own http listener"):
        all_namespaces(settings)


def test_an_unknown_namespace_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are: default, acme"):
        find_namespace(load(data=tmp_path, namespaces=OWN), "globex")


def test_an_unknown_listener_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"namespaces\.acme"):
        load(data=tmp_path, namespaces={"acme": {"listen": {"smtp": "127.0.0.1:25"}}})
