"""Authentication over HTTP: tokens, certificates and sessions."""

import contextlib
import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.harness import until
from tests.interop.secured import SecuredSite
from tests.web.caller import Caller, HttpResponse

from dragoman import Client, Worker
from dragoman.sdk.credentials import NONE, Credentials
from dragoman.sdk.errors import Refused, Unreachable
from dragoman.security.registry import KeyRegistry
from dragoman.testing.harness import LocalBroker

#: Longer than any clock of these tests runs.
NOW = 1_700_000_000.0


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> KeyRegistry:
    return KeyRegistry.open(tmp_path_factory.mktemp("keys") / "registry.json")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> SecuredSite:
    return SecuredSite(tmp_path_factory.mktemp("house") / "files")


@pytest.fixture(scope="module")
def tokens(registry: KeyRegistry) -> dict[str, str]:
    return {
        name: registry.new_token(name, now=NOW, roles=(role,))
        for name, role in (("anna", "admin"), ("otto", "submitter"), ("wanda", "worker"))
    }


@pytest.fixture(scope="module")
def broker(registry: KeyRegistry, tokens: dict[str, str]) -> Iterator[LocalBroker]:
    security = {"enabled": True, "registry": registry.path}
    with LocalBroker("http", security=security, ledger={"seal": False}) as broker:
        yield broker


@pytest.fixture(scope="module")
def caller(broker: LocalBroker) -> Caller:
    return Caller(broker.endpoints["http"])


def ask(
    caller: Caller,
    method: str,
    path: str,
    body: object = None,
    *,
    heads: dict[str, str] | None = None,
    **more: str,
) -> HttpResponse:
    """Make one request, with headers that were made before."""
    return caller.ask(method, path, body, raw=None, **(heads or {}), **more)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("path", ["/v1/services", "/v1/jobs", "/metrics", "/session", "/v1/inbox"])
def test_nobody_is_answered(caller: Caller, path: str) -> None:
    found = ask(caller, "GET", path)
    assert found.status == 401
    assert found.headers["www-authenticate"] == "Bearer"
    assert found.json["code"] == "unauthenticated"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/login"])
def test_what_is_for_everybody_is_answered(caller: Caller, path: str) -> None:
    assert ask(caller, "GET", path).status == 200


@pytest.mark.parametrize("token", ["Bearer wrong", "Bearer ", "Basic YTpi", "Bearer drgt-x-y"])
def test_other_tokens_are_refused_and_not_repeated(caller: Caller, token: str) -> None:
    found = ask(caller, "GET", "/v1/services", Authorization=token)
    assert found.status == 401
    assert token.partition(" ")[2] not in found.body.decode() or token == "Bearer "


def test_a_token_tells_whom_it_speaks_for(caller: Caller, tokens: dict[str, str]) -> None:
    found = ask(caller, "GET", "/session", heads=bearer(tokens["anna"])).json
    assert (found["principal"], found["secured"]) == ("anna", True)
    assert found["may"]["workers"]
    other = ask(caller, "GET", "/session", heads=bearer(tokens["wanda"])).json
    assert not other["may"]["workers"]


def test_who_may_look_is_the_policys_matter(caller: Caller, tokens: dict[str, str]) -> None:
    assert ask(caller, "GET", "/v1/workers", heads=bearer(tokens["anna"])).status == 200
    refused = ask(caller, "GET", "/v1/workers", heads=bearer(tokens["wanda"]))
    assert refused.status == 403
    assert refused.json["code"] == "denied"


def test_our_own_peers_bring_their_tokens(broker: LocalBroker, tokens: dict[str, str]) -> None:
    worker = Worker(
        broker.endpoints["http"], "math", credentials=Credentials(token=tokens["wanda"])
    )
    worker.task(_add, name="add")
    url = broker.endpoints["http"]
    with worker, Client(url, credentials=Credentials(token=tokens["otto"])) as client:
        assert client.call("math", "add", x=2, y=3, timeout=20) == 5
    with Client(url, credentials=NONE) as nobody, pytest.raises(Refused, match="authenticate with"):
        nobody.call("math", "add", x=2, y=3, timeout=20)


def _add(x: int, y: int) -> int:
    return x + y


def test_a_name_belongs_to_whoever_used_it_first(caller: Caller, tokens: dict[str, str]) -> None:
    name = {"Dragoman_Client": "desk-7"}
    assert ask(caller, "GET", "/v1/jobs/none", heads=bearer(tokens["anna"]) | name).status == 404
    stolen = ask(caller, "GET", "/v1/jobs/none", heads=bearer(tokens["otto"]) | name)
    assert stolen.status == 403
    assert "another principal" in stolen.json["detail"]


def test_a_workers_session_belongs_to_whoever_registered(
    caller: Caller, tokens: dict[str, str]
) -> None:
    ready = {"services": ["resize"], "name": "w-7"}
    made = ask(caller, "POST", "/v1/workers", ready, heads=bearer(tokens["wanda"]))
    assert made.status == 201, made.body
    path = f"/v1/workers/{made.json['session']}"
    for method, place in (("POST", f"{path}/poll"), ("DELETE", path)):
        assert ask(caller, method, place, {"wait": 0}, heads=bearer(tokens["otto"])).status == 403
    assert ask(caller, "DELETE", path, heads=bearer(tokens["wanda"])).status == 204


def test_a_browser_logs_in_and_repeats_its_word(caller: Caller, tokens: dict[str, str]) -> None:
    made = ask(caller, "POST", "/login", {"token": tokens["anna"]})
    assert made.status == 201
    cookie = made.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
    mine = {"Cookie": cookie.partition(";")[0]}
    assert ask(caller, "GET", "/v1/workers", heads=mine).status == 200
    session = ask(caller, "GET", "/session", heads=mine).json
    assert (session["principal"], session["csrf"]) == ("anna", made.json["csrf"])
    job = {"service": "nobody.there", "task": "x", "timeout": 1}
    forged = ask(caller, "POST", "/v1/jobs", job, heads=mine)
    assert (forged.status, forged.json["code"]) == (403, "csrf")
    word = {"Dragoman_CSRF": made.json["csrf"]}
    assert ask(caller, "POST", "/v1/jobs", job, heads=mine | word).status == 202
    assert ask(caller, "POST", "/logout", heads=mine | word).status == 204
    assert ask(caller, "GET", "/v1/workers", heads=mine).status == 401


def test_a_form_of_another_site_logs_nobody_in(caller: Caller, tokens: dict[str, str]) -> None:
    found = {"token": tokens["anna"]}
    assert ask(caller, "POST", "/login", found, Origin="http://evil.example").status == 403
    assert ask(caller, "POST", "/login", found, Sec_Fetch_Site="cross-site").status == 403
    assert ask(caller, "POST", "/login", {"token": "wrong"}).status == 401


def test_every_answer_has_the_headers_that_protect_browsers(caller: Caller) -> None:
    for path in ("/healthz", "/nowhere", "/login"):
        headers = ask(caller, "GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_a_revoked_token_and_its_stream_end_within_a_second(
    caller: Caller, registry: KeyRegistry
) -> None:
    token = registry.new_token("rita", now=NOW, roles=("admin",))
    key = registry.check_token(token, NOW)
    assert key is not None

    def is_known() -> bool:
        return ask(caller, "GET", "/v1/services", heads=bearer(token)).status == 200

    until(is_known, "the token is known")
    with caller.events("/v1/events", Authorization=f"Bearer {token}") as stream:
        registry.revoke(key)
        until(lambda: not is_known(), "the token is refused", 1.5)
        # The stream ends; without that the reading would time out.
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            list(stream)


def test_a_login_survives_a_restart_and_a_revocation_meanwhile_ends_it(tmp_path: Path) -> None:
    registry = KeyRegistry.open(tmp_path / "registry.json")
    token = registry.new_token("anna", now=NOW, roles=("admin",))
    security = {"enabled": True, "registry": registry.path}

    def broker() -> LocalBroker:
        data = tmp_path / "data"
        return LocalBroker("http", data=data, security=security, ledger={"seal": False})

    with broker() as first:
        made = ask(Caller(first.endpoints["http"]), "POST", "/login", {"token": token})
        cookie = {"Cookie": made.headers["set-cookie"].partition(";")[0]}
    with broker() as second:
        caller = Caller(second.endpoints["http"])
        found = ask(caller, "GET", "/session", heads=cookie)
        assert (found.status, found.json["csrf"]) == (200, made.json["csrf"])
    registry.revoke("anna")
    with broker() as third:
        found = ask(Caller(third.endpoints["http"]), "GET", "/session", heads=cookie)
        assert found.status in (401, 403)


@pytest.mark.process
def test_https_takes_certificates_tokens_and_nothing_in_the_clear(
    house: SecuredSite, tmp_path: Path
) -> None:
    registry = KeyRegistry.open(tmp_path / "registry.json")
    _, anna, keys = house.peer("anna")
    _, stranger, _ = house.peer("stranger")
    registry.add(keys[2], "anna", now=NOW, roles=("admin",))
    token = registry.new_token("otto", now=NOW, roles=("admin",))
    security = {"enabled": True, "registry": registry.path}
    with house.broker("http", security=security) as broker:
        url = broker.endpoints["http"]
        assert url.startswith("https://")
        with Client(url, credentials=anna) as client:
            assert client.call("mmi.service.broker", "list_workers", timeout=20) is not None
        otto = Credentials(authority=house.authority.certificate, token=token)
        with Client(url, credentials=otto) as client:
            assert client.call("mmi.service.broker", "list_workers", timeout=20) is not None
        for wrong, words in (
            (stranger, "not admitted"),
            (Credentials(authority=SecuredSite(tmp_path / "b").authority.certificate), "no TLS"),
        ):
            with Client(url, credentials=wrong) as client, pytest.raises(Refused, match=words):
                client.call("mmi.service.broker", "list_workers", timeout=20)
        counted = Caller(url, house.files["authority"]).get(
            "/metrics", Authorization=f"Bearer {token}"
        )
        assert b'dragoman_link_refused_total{link="http",reason="' in counted.body
        plain = url.replace("https://", "http://")
        with Client(plain, credentials=NONE) as client, pytest.raises(Unreachable, match="https"):
            client.call("mmi.service.broker", "list_workers", timeout=2)
