"""The settings of an issuer: what is refused at the start."""

from typing import Any

import pytest
from tests.server.issuer_keys import ISSUER, section

from dragoman.server.settings import SecuritySection


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"issuer": ""}, "issuer is missing"),
        ({"issuer": "http://login.example"}, "no https URL"),
        ({"issuer": f"{ISSUER}?a=b"}, "no user, query or fragment"),
        ({"audience": ""}, "set audience"),
        ({"client": "x", "scopes": ("profile",)}, "openid"),
        ({"keys": "http://login.example/keys"}, "no https URL"),
        ({"address": "broker.example"}, "no https URL"),
        ({"login_hours": 13}, "less than or equal"),
    ],
)
def test_a_mistake_is_named(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        section(**given)


def test_an_issuer_on_this_machine_needs_no_tls() -> None:
    assert section(issuer="http://127.0.0.1:8080").issuer == "http://127.0.0.1:8080"


@pytest.mark.parametrize("name", ["curve", "tls", "token", "nkey", "jwt", "Corp", "a:b", ""])
def test_the_name_of_an_issuer_begins_no_other_principal(name: str) -> None:
    with pytest.raises(ValueError, match="no name for an issuer"):
        SecuritySection(issuers={name: section()})
