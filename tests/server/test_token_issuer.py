"""One issuer: which tokens are valid, who they name, and when its keys are read."""

import asyncio
import base64
import hmac
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from tests.server.issuer_keys import AUDIENCE, ISSUER, NOW, MemoryIssuer, section

from dragoman.server.issuer_requests import IssuerUnavailable
from dragoman.server.token_issuer import KEYS_FOR, LEEWAY, PAUSE, TokenIssuer, TokenRefused


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> float:
        return self.at


def issuer_of(world: MemoryIssuer, clock: Clock | None = None, **given: Any) -> TokenIssuer:
    return TokenIssuer("corp", section(**given), clock or Clock(), world.fetch)


def verify(world: MemoryIssuer, token: str, **given: Any) -> dict[str, Any]:
    return asyncio.run(issuer_of(world, **given).verify(token, AUDIENCE))


def test_a_token_of_the_issuer_for_this_audience_is_valid() -> None:
    world = MemoryIssuer()
    assert verify(world, world.token())["sub"] == "anna"
    assert verify(world, world.token(aud=["other", AUDIENCE]))["sub"] == "anna"
    assert verify(world, world.token(exp=NOW - LEEWAY + 1))["sub"] == "anna"


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "other"},
        {"aud": None},
        {"aud": ["other"]},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"exp": None},
        {"exp": NOW - 600},
        {"exp": "tomorrow"},
        {"nbf": NOW + 600},
        {"iat": NOW + 600},
    ],
)
def test_a_token_with_other_claims_is_refused(claims: dict[str, Any]) -> None:
    world = MemoryIssuer()
    token = world.token(**claims)
    with pytest.raises(TokenRefused) as refusal:
        verify(world, token)
    assert token not in str(refusal.value)


def _none(world: MemoryIssuer) -> str:
    """A token without a signature."""
    head, body, _ = world.token().split(".")
    head = base64.urlsafe_b64encode(b'{"alg":"none","kid":"k1"}').decode().rstrip("=")
    return f"{head}.{body}."


def _symmetric(world: MemoryIssuer) -> str:
    """A token signed with the public key as if it were a shared secret."""
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"k1"}').decode().rstrip("=")
    signed = f"{head}.{world.token().split('.')[1]}"
    mac = hmac.digest(world.key.as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def _foreign(world: MemoryIssuer) -> str:
    """A token of another key with the same id."""
    other = MemoryIssuer()
    return other.token()


def _own_key(world: MemoryIssuer) -> str:
    """A token that brings its own key along, and names a place to get it from."""
    other = ECKey.generate_key("P-256")
    head = {"jwk": other.as_dict(private=False), "kid": "k1"}
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "exp": NOW + 600}
    return jwt.encode({"alg": "ES256", **head}, claims, other)


def _changed(world: MemoryIssuer) -> str:
    """A token whose claims were changed after it was signed."""
    head, _, signature = world.token().split(".")
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "root", "exp": NOW + 600}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"{head}.{body}.{signature}"


@pytest.mark.parametrize("forge", [_none, _symmetric, _foreign, _own_key, _changed])
def test_a_forged_token_is_refused(forge: Callable[[MemoryIssuer], str]) -> None:
    world = MemoryIssuer()
    with pytest.raises(TokenRefused):
        verify(world, forge(world))
    assert set(world.asked) <= {"/.well-known/openid-configuration", "/keys"}


@given(st.lists(st.text("abcAZ019-_=é\0", max_size=60), min_size=1, max_size=5).map(".".join))
def test_a_text_that_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(TokenRefused):
        verify(MemoryIssuer(), text)


def test_the_keys_are_read_once_and_again_when_they_are_old() -> None:
    world, clock = MemoryIssuer(), Clock()
    issuer = issuer_of(world, clock)

    async def scenario() -> None:
        for _ in range(5):
            await issuer.verify(world.token(), AUDIENCE)
        assert world.asked.count("/keys") == 1
        clock.at += KEYS_FOR
        signed, world.keys = world.token(), [MemoryIssuer().key]
        with pytest.raises(TokenRefused):
            # The issuer has removed the key that signed this token.
            await issuer.verify(signed, AUDIENCE)
        assert world.asked.count("/keys") == 2

    asyncio.run(scenario())


def test_a_new_key_of_the_issuer_is_found_but_strange_ids_do_not_flood_it() -> None:
    world, clock = MemoryIssuer(), Clock()
    issuer = issuer_of(world, clock)

    async def scenario() -> None:
        await issuer.verify(world.token(), AUDIENCE)
        new = ECKey.generate_key("P-256", {"kid": "k2"})
        world.keys.append(new)
        world.key = new
        signed = world.token({"kid": "k2"})
        clock.at += PAUSE
        assert (await issuer.verify(signed, AUDIENCE))["sub"] == "anna"
        for number in range(20):
            with pytest.raises(TokenRefused):
                await issuer.verify(world.token({"kid": f"x{number}"}), AUDIENCE)
        assert world.asked.count("/keys") == 2

    asyncio.run(scenario())


def test_known_keys_stay_in_force_while_the_issuer_is_down() -> None:
    world, clock = MemoryIssuer(), Clock()
    issuer = issuer_of(world, clock)

    async def scenario() -> None:
        world.is_down = True
        with pytest.raises(IssuerUnavailable):
            await issuer.verify(world.token(), AUDIENCE)
        world.is_down = False
        clock.at += PAUSE
        await issuer.verify(world.token(), AUDIENCE)
        world.is_down, clock.at = True, clock.at + KEYS_FOR
        assert (await issuer.verify(world.token(), AUDIENCE))["sub"] == "anna"

    asyncio.run(scenario())


def test_an_issuer_that_is_down_is_not_asked_for_every_request_of_a_stranger() -> None:
    world, clock = MemoryIssuer(), Clock()
    issuer = issuer_of(world, clock)

    async def scenario() -> None:
        world.is_down = True
        for _ in range(20):
            with pytest.raises(IssuerUnavailable, match="does not answer"):
                await issuer.verify(world.token(), AUDIENCE)
            with pytest.raises(IssuerUnavailable, match="does not answer"):
                await issuer.metadata("authorization_endpoint")
        assert len(world.asked) == 1
        world.is_down = False
        clock.at += PAUSE
        assert await issuer.metadata("authorization_endpoint") == f"{ISSUER}/auth"
        assert len(world.asked) == 2

    asyncio.run(scenario())


def test_requests_to_a_silent_issuer_are_bounded() -> None:
    world, silence = MemoryIssuer(), threading.Event()
    asked: list[str] = []

    def fetch(url: str, *_: Any, **__: Any) -> dict[str, Any]:
        asked.append(url)
        silence.wait(30)
        return {}

    async def scenario() -> None:
        issuer = issuer_of(world)
        issuer._fetch = fetch
        waiting = [asyncio.create_task(issuer.fetch(f"{ISSUER}/token")) for _ in range(50)]
        await asyncio.sleep(0)
        with pytest.raises(IssuerUnavailable, match="50 requests wait"):
            await issuer.fetch(f"{ISSUER}/token")
        assert len(asked) <= 2
        silence.set()
        await asyncio.gather(*waiting)

    asyncio.run(scenario())


def test_metadata_of_another_issuer_are_not_used() -> None:
    world = MemoryIssuer()
    world.answers["/.well-known/openid-configuration"]["issuer"] = "https://evil.example"
    with pytest.raises(IssuerUnavailable, match="another issuer"):
        verify(world, world.token())


def test_the_key_set_may_be_a_file(tmp_path: Path) -> None:
    world, file = MemoryIssuer(), tmp_path / "keys.json"
    file.write_text(json.dumps(KeySet([world.key]).as_dict()))
    assert verify(world, world.token(), keys=str(file))["sub"] == "anna"
    assert world.asked == []


def test_principal_and_groups_begin_with_the_name_of_the_issuer() -> None:
    issuer = issuer_of(MemoryIssuer(), groups_claim="realm_access.roles")
    claims = {"sub": "anna", "realm_access": {"roles": ["netops", "a b", 7, "x\n"]}}
    found = issuer.identity_in(claims, NOW + 5)
    assert found.principal == "corp:anna"
    assert found.groups == ("corp:netops", "corp:a b")
    assert found.expires_at == NOW + 5


def test_groups_may_be_one_text_or_missing() -> None:
    issuer = issuer_of(MemoryIssuer(), groups_claim="scope")
    assert issuer.identity_in({"sub": "a", "scope": "x y"}, NOW).groups == ("corp:x", "corp:y")
    assert issuer.identity_in({"sub": "a"}, NOW).groups == ()


@pytest.mark.parametrize(
    "name", [None, 7, "", "a b", "*", "a?", "\u0430nna", "x" * 201, "a\n", ["a"]]
)
def test_a_name_that_could_pass_for_another_is_refused(name: object) -> None:
    with pytest.raises(TokenRefused, match="name"):
        issuer_of(MemoryIssuer()).identity_in({"sub": name}, NOW)


@pytest.mark.parametrize("groups", [7, {"a": 1}, ["g"] * 1001])
def test_other_groups_are_refused(groups: object) -> None:
    with pytest.raises(TokenRefused, match="groups"):
        issuer_of(MemoryIssuer()).identity_in({"sub": "a", "groups": groups}, NOW)


def test_only_names_that_the_settings_admit_get_in() -> None:
    issuer = issuer_of(MemoryIssuer(), names=("*@example.org",), name_claim="email")
    assert issuer.identity_in({"email": "a@example.org"}, NOW).principal == "corp:a@example.org"
    with pytest.raises(TokenRefused, match="not one of"):
        issuer.identity_in({"email": "a@other.example"}, NOW)
