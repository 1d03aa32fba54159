"""Bearer tokens of services and logins of people, with an issuer in memory."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.security.keyring import ring
from tests.server.issuer_keys import ISSUER, NOW, MemoryIssuer, section

from dragoman.model.names import Principal
from dragoman.security.issued_tokens import TokenKeys, revocation_key
from dragoman.security.keys import KeyState
from dragoman.security.registry_data import KeyEntry, RegistryData
from dragoman.server.federation import LOGINS_FILE, Federation
from dragoman.server.issuer_requests import IssuerRefusal, IssuerUnavailable
from dragoman.server.token_issuer import KEYS_FOR, LEEWAY, TokenRefused

REDIRECT = "https://broker.example/login/corp/callback"


class World:
    """A federation with one issuer, its clock, and what it reported."""

    def __init__(self, folder: Path, registry: RegistryData | None = None, **given: Any) -> None:
        self.at = NOW
        self.issuer = MemoryIssuer()
        self.keys = TokenKeys(registry or ring())
        self.reported: list[tuple[bool, str, Principal | None]] = []
        self.of = Federation(
            {"corp": section(**{"client": "dashboard", **given})},
            self.keys,
            lambda: self.at,
            lambda *report: self.reported.append(report),
            data=folder,
            fetch=self.issuer.fetch,
        )

    def check(self, token: str) -> str | None:
        return asyncio.run(self.of.check(token))

    def log_in(self, nonce: str = "n1", **claims: Any) -> str:
        said = {"aud": "dashboard", "nonce": nonce, "groups": ["netops"], **claims}
        answer = {"id_token": self.issuer.token(**said), "access_token": "at"}
        self.issuer.answers.setdefault("/token", answer)
        return asyncio.run(
            self.of.finish_login(
                "corp", code="c", redirect=REDIRECT, verifier="v", nonce="n1", issuer=""
            )
        )


def test_a_bearer_token_is_a_key_of_its_principal(tmp_path: Path) -> None:
    world = World(tmp_path)
    key = world.check(world.issuer.token(groups=["netops"]))
    assert key is not None
    assert world.keys.principal_of(key) == "corp:anna"
    assert world.keys.groups_of(key) == ("corp:netops",)
    assert world.reported == [(True, "token accepted; groups: corp:netops", "corp:anna")]


def test_a_token_is_verified_again_after_a_while(tmp_path: Path) -> None:
    world = World(tmp_path)
    token = world.issuer.token(exp=NOW + 10 * KEYS_FOR)
    assert world.check(token) is not None
    world.issuer.keys = [MemoryIssuer().key]
    world.at += KEYS_FOR - 1
    assert world.check(token) is not None
    world.at += 1
    assert world.check(token) is None
    assert [accepted for accepted, _, _ in world.reported] == [True, False]


def test_a_token_ends_when_it_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    key = world.check(world.issuer.token(exp=NOW + 60))
    assert key is not None
    assert world.keys.state_of(key, NOW + 60 + LEEWAY - 1) is KeyState.ALLOWED
    assert world.keys.state_of(key, NOW + 60 + LEEWAY) is KeyState.EXPIRED


@pytest.mark.parametrize(
    "text", ["", "drgt-abc", "a.b", "a.b.c", "..", "a.W10.c", "é.é.é", "x" * 20_000]
)
def test_a_text_that_is_no_jwt_costs_nothing(tmp_path: Path, text: str) -> None:
    world = World(tmp_path)
    assert world.check(text) is None
    assert (world.issuer.asked, world.reported) == ([], [])


def test_a_token_of_another_issuer_is_refused_and_reported(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.check(world.issuer.token(iss="https://evil.example")) is None
    assert world.issuer.asked == []
    assert world.reported == [(False, "a token of another issuer: https://evil.example", None)]


def test_without_an_audience_there_are_no_bearer_tokens(tmp_path: Path) -> None:
    world = World(tmp_path, audience="")
    assert world.check(world.issuer.token(aud="")) is None


def test_a_revoked_principal_gets_in_with_no_token(tmp_path: Path) -> None:
    registry = ring()
    registry.keys[revocation_key("corp:anna")] = KeyEntry("corp:anna", KeyState.REVOKED)
    world = World(tmp_path, registry)
    assert world.check(world.issuer.token()) is None
    with pytest.raises(TokenRefused, match="revoked"):
        world.log_in()
    assert world.check(world.issuer.token(sub="vera")) is not None


def test_an_issuer_that_is_down_is_no_refusal(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.issuer.is_down = True
    with pytest.raises(IssuerUnavailable):
        world.check(world.issuer.token())


def test_the_browser_is_sent_to_the_issuer(tmp_path: Path) -> None:
    world = World(tmp_path)
    flow = {"state": "s", "nonce": "n", "code_challenge": "h"}
    url = asyncio.run(world.of.login_url("corp", REDIRECT, **flow))
    assert url.startswith(f"{ISSUER}/auth?")
    assert {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()} == {
        "response_type": "code",
        "client_id": "dashboard",
        "redirect_uri": REDIRECT,
        "scope": "openid profile",
        "code_challenge_method": "S256",
        **flow,
    }


def test_a_code_becomes_a_login(tmp_path: Path) -> None:
    world = World(tmp_path, login_hours=2)
    key = world.log_in()
    assert world.keys.principal_of(key) == "corp:anna"
    assert world.keys.state_of(key, NOW + 7199) is KeyState.ALLOWED
    assert world.keys.state_of(key, NOW + 7200) is KeyState.EXPIRED
    (form,) = world.issuer.forms
    assert (form["code"], form["code_verifier"], form["client_id"]) == ("c", "v", "dashboard")
    assert "/me" not in world.issuer.asked
    assert world.reported == [(True, "login accepted; groups: corp:netops", "corp:anna")]


def test_the_secret_of_the_client_goes_in_a_header(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(0o600)
    file.write_text("s/1\n")
    world = World(tmp_path, client_secret=file)
    world.log_in()
    assert world.issuer.forms[0]["Authorization"] == "Basic ZGFzaGJvYXJkOnMlMkYx"


def test_groups_that_only_userinfo_has_are_read_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.issuer.answers["/me"] = {"sub": "anna", "groups": ["staff"], "aud": "evil"}
    assert world.keys.groups_of(world.log_in(groups=None)) == ("corp:staff",)


def test_a_login_survives_a_restart_and_ends_with_its_time(tmp_path: Path) -> None:
    key = World(tmp_path).log_in()
    again = World(tmp_path)
    assert again.keys.state_of(key, NOW) is KeyState.ALLOWED
    assert again.keys.groups_of(key) == ("corp:netops",)
    assert (tmp_path / LOGINS_FILE).stat().st_mode & 0o077 == 0
    later = World(tmp_path)
    later.at = NOW + 9 * 3600
    other = later.log_in(exp=NOW + 10 * 3600)
    assert set(World(tmp_path).keys.tokens_of("corp:anna")) == {other}


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"nonce": "n2"}, "another login"),
        ({"nonce": None}, "another login"),
        ({"aud": "dragoman"}, "aud"),
        ({"aud": ["dashboard", "other"]}, "another client"),
        ({"azp": "other"}, "another client"),
        ({"groups": None, "sub": "vera"}, "another subject"),
        ({"sub": "a b"}, "no name"),
    ],
)
def test_another_id_token_is_refused(tmp_path: Path, claims: dict[str, Any], reason: str) -> None:
    world = World(tmp_path)
    world.issuer.answers["/me"] = {"sub": "anna", "groups": []}
    with pytest.raises(TokenRefused, match=reason):
        world.log_in(**claims)
    assert [accepted for accepted, _, _ in world.reported] == [False]


def test_an_id_token_logs_in_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.log_in()
    with pytest.raises(TokenRefused, match="used before"):
        world.log_in()


def test_an_answer_that_names_another_issuer_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(TokenRefused, match="another issuer"):
        asyncio.run(
            world.of.finish_login(
                "corp", code="c", redirect="r", verifier="v", nonce="n", issuer="https://evil"
            )
        )
    assert world.issuer.asked == []


def test_the_refusal_of_the_issuer_is_reported(tmp_path: Path) -> None:
    world = World(tmp_path)

    def refuse(*_: Any, **__: Any) -> dict[str, Any]:
        raise IssuerRefusal("login.example refuses: invalid_grant")

    asyncio.run(world.of._issuers["corp"].metadata("issuer"))
    world.of._issuers["corp"]._fetch = refuse
    with pytest.raises(IssuerRefusal):
        world.log_in()
    assert world.reported == [(False, "login: login.example refuses: invalid_grant", None)]
