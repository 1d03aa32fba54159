"""Bearer tokens of a real issuer, and tokens that only look like them."""

import base64
import hmac
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from tests.canary_watch import watch_of
from tests.interop.harness import until
from tests.interop.oidc_provider import AUDIENCE, OidcProvider
from tests.security.attacks.attack_table import tried_in
from tests.security.attacks.attacked_site import position, records, troubles
from tests.web.caller import Caller

from dragoman import Client, Worker
from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.main import app
from dragoman.sdk.credentials import Credentials
from dragoman.sdk.errors import Denied, DragomanError
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop

POLICY = """
[groups]
"corp:workers" = ["worker", "submitter"]
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with OidcProvider() as running:
        yield running


@pytest.fixture(scope="module")
def broker(
    provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalBroker]:
    data = tmp_path_factory.mktemp("data")
    (data / "policy.toml").write_text(POLICY)
    security = {"enabled": True, "issuers": {"corp": provider.section()}}
    with LocalBroker("http", data=data, security=security) as running:
        yield running


@pytest.fixture(scope="module")
def token(provider: OidcProvider, request: pytest.FixtureRequest) -> str:
    made = provider.token()
    watch_of(request.config).canaries.add("access token", made)
    return made


def status_of(broker: LocalBroker, token: str) -> int:
    return Caller(broker.endpoints["http"]).get("/session", Authorization=f"Bearer {token}").status


def file_with(folder: Path, token: str) -> Credentials:
    """Return credentials that name a file with a token."""
    path = folder / "robot.key"
    path.write_text(f"{token}\n")
    return Credentials(token_file=str(path))


def test_a_service_works_with_the_roles_of_its_groups(
    broker: LocalBroker, token: str, tmp_path: Path
) -> None:
    robot, url = file_with(tmp_path, token), broker.url("http")
    with Worker(url, service="lift", name="r1", credentials=robot) as worker:
        worker.task(lambda x: x + 1, name="inc")
        with Client(url, credentials=robot) as client:
            assert client.call("lift", "inc", x=1, timeout=20) == 2
            with pytest.raises(Denied, match="manage"):
                client.call("mmi.service.broker", "list_keys", timeout=20)
    joined = [r for r in records(broker, "joined") if r.service == "lift"]
    assert [r.principal for r in joined] == ["corp:robot"]
    submitted = [r for r in records(broker, "submitted") if r.service == "lift"]
    assert {r.principal for r in submitted} == {"corp:robot"}


def test_a_valid_token_without_groups_may_do_nothing(
    broker: LocalBroker, provider: OidcProvider, tmp_path: Path
) -> None:
    idler = file_with(tmp_path, provider.token("idler"))
    with Client(broker.url("http"), credentials=idler) as client, pytest.raises(Denied):
        client.call("lift", "inc", x=1, timeout=20)


def test_a_renewed_token_in_the_file_is_used_from_the_next_request_on(
    broker: LocalBroker, provider: OidcProvider, token: str, tmp_path: Path
) -> None:
    idler = file_with(tmp_path, provider.token("idler"))
    with Client(broker.url("http"), name="renewing", credentials=idler) as client:
        with pytest.raises(Denied):
            client.call("void", "inc", timeout=20)
        file_with(tmp_path, provider.token("idler"))
        with pytest.raises(Denied):
            client.call("void", "inc", timeout=20)
    keys = {r.detail for r in records(broker, "allowed") if r.principal == "corp:idler"}
    assert keys == {"token accepted; groups: none"}
    accepted = [r for r in records(broker, "allowed") if r.principal == "corp:idler"]
    assert len(accepted) >= 2


def claims_of(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert isinstance(found, dict)
    return found


def part(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def other_audience(provider: OidcProvider, token: str) -> str:
    return provider.token(resource="urn:other")


def other_issuer(provider: OidcProvider, token: str) -> str:
    claims = {**claims_of(token), "iss": "https://evil.example"}
    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, RSAKey.generate_key(2048))


def other_key(provider: OidcProvider, token: str) -> str:
    head = {"alg": "RS256", "kid": "first"}
    return jwt.encode(head, claims_of(token), RSAKey.generate_key(2048))


def own_key(provider: OidcProvider, token: str) -> str:
    key = RSAKey.generate_key(2048)
    head = {"alg": "RS256", "jwk": key.as_dict(private=False), "jku": "http://127.0.0.1:9/keys"}
    return jwt.encode(head, claims_of(token), key)


def no_signature(provider: OidcProvider, token: str) -> str:
    return f"{part({'alg': 'none'})}.{token.split('.')[1]}."


def shared_secret(provider: OidcProvider, token: str) -> str:
    """Sign with the issuer's public key as if it were a shared secret."""
    keys = Caller(provider.issuer).get("/jwks").json["keys"]
    pem = RSAKey.import_key(keys[0]).as_pem(private=False)
    signed = f"{part({'alg': 'HS256', 'kid': 'first'})}.{token.split('.')[1]}"
    mac = base64.urlsafe_b64encode(hmac.digest(pem, signed.encode(), "sha256")).decode()
    return f"{signed}.{mac.rstrip('=')}"


def more_groups(provider: OidcProvider, token: str) -> str:
    head, _, signature = token.split(".")
    return f"{head}.{part({**claims_of(token), 'groups': ['admins']})}.{signature}"


FORGERIES = (
    *(other_audience, other_issuer, other_key, own_key, no_signature, shared_secret),
    more_groups,
)


@pytest.mark.parametrize("dialect", tried_in("bad token"))
@pytest.mark.parametrize("forge", FORGERIES)
def test_a_token_that_is_not_valid_gets_nothing(
    broker: LocalBroker,
    provider: OidcProvider,
    token: str,
    forge: Callable[[OidcProvider, str], str],
    dialect: str,
) -> None:
    before, at = troubles(broker, dialect), position(broker)
    assert status_of(broker, forge(provider, token)) == 401
    assert troubles(broker, dialect) == before + 1
    until(
        lambda: any("token" in r.detail for r in records(broker, "denied", after=at)),
        "the refusal is on record",
    )


@pytest.mark.parametrize("dialect", tried_in("bad token"))
def test_an_expired_token_gets_nothing(
    broker: LocalBroker, provider: OidcProvider, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.server.token_issuer.LEEWAY", 0)
    short = provider.token(resource="urn:dragoman:short")
    until(lambda: time.time() > claims_of(short)["exp"], "the token expires")
    assert status_of(broker, short) == 401


def test_a_revoked_principal_is_gone_within_a_second_and_stays_away(
    provider: OidcProvider, tmp_path: Path
) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    config = tmp_path / "dragoman.toml"
    config.write_text(
        f'data = "{tmp_path}"\n[security]\nenabled = true\n[security.issuers.corp]\n'
        f'issuer = "{provider.issuer}"\naudience = "{AUDIENCE}"\n'
    )
    security = {"enabled": True, "issuers": {"corp": provider.section()}}
    with LocalBroker("http", data=tmp_path, security=security) as broker:
        loop, robot = broker.server.loop, file_with(tmp_path, provider.token())
        assert loop is not None
        with Worker(broker.url("http"), service="lift", name="r1", credentials=robot) as worker:
            worker.task(lambda x: x + 1, name="inc")
            found = loop.broker.state.registry.workers
            until(lambda: any(w.principal == "corp:robot" for w in list(found.values())), "joined")
            words = ["keys", "revoke", "corp:robot", "--config", str(config)]
            assert run_to_exit_code(lambda: app(words)) == 0
            until(
                lambda: all(w.principal != "corp:robot" for w in list(found.values())),
                "the worker is gone",
                at_most=2,
            )
        assert status_of(broker, provider.token()) in (401, 403)
        with (
            Client(broker.url("http"), credentials=robot) as client,
            pytest.raises((DragomanError, TimeoutError)),
        ):
            client.call("lift", "inc", x=1, timeout=3)
