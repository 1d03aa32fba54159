"""Login with OpenID Connect, at a real provider on the loopback."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.interop.harness import until
from tests.interop.oidc_provider import OidcProvider, ScriptedBrowser

from dragoman.security.registry import KeyRegistry
from dragoman.testing.harness import LocalBroker
from dragoman.web.identity import COOKIE as SESSION
from dragoman.web.oidc_login import COOKIE, challenge_of

pytestmark = pytest.mark.interop

POLICY = """
[groups]
"corp:netops" = ["operator"]
"corp:staff" = ["viewer"]
"""
CALLBACK = "/login/corp/callback"


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with OidcProvider() as running:
        yield running


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "policy.toml").write_text(POLICY)
    return folder


def broker_at(data: Path, provider: OidcProvider) -> LocalBroker:
    security = {"enabled": True, "issuers": {"corp": provider.section()}}
    return LocalBroker("http", data=data, security=security, ledger={"seal": False})


@pytest.fixture(scope="module")
def broker(data: Path, provider: OidcProvider) -> Iterator[LocalBroker]:
    with broker_at(data, provider) as running:
        yield running


@pytest.fixture(scope="module")
def base(broker: LocalBroker) -> str:
    return broker.endpoints["http"]


def details(broker: LocalBroker, kind: str) -> list[str]:
    loop = broker.server.loop
    assert loop is not None
    return [f"{r.principal} {r.detail}" for r in loop.ledger.read() if r.kind == kind]


def session(browser: ScriptedBrowser, base: str) -> dict[str, object]:
    found = browser.visit(f"{base}/session").json
    assert isinstance(found, dict)
    return found


def test_the_challenge_is_that_of_the_specification() -> None:
    # RFC 7636, appendix B.
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert challenge_of(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_the_login_page_names_the_issuer(base: str) -> None:
    page = ScriptedBrowser().visit(f"{base}/login?next=%2F%23%2Fjobs").body.decode()
    assert '<a class="issuer" href="/login/corp?next=%2F%23%2Fjobs">' in page
    assert "Log in with Corp &amp; Co" in page


def test_a_person_logs_in_with_the_roles_of_its_groups(broker: LocalBroker, base: str) -> None:
    browser = ScriptedBrowser()
    page = browser.log_in_as("anna", f"{base}/login/corp?next=%2F%23%2Fjobs")
    assert page.status == 200
    assert browser.visited[-1] == f"{base}/#/jobs"
    found = session(browser, base)
    assert found["principal"] == "corp:anna"
    may = found["may"]
    assert isinstance(may, dict)
    assert may["cancel-others"]
    accepted = "corp:anna login accepted; groups: corp:netops, corp:staff"
    until(lambda: accepted in details(broker, "allowed"), "the login is on record")
    assert COOKIE not in {each.name for each in browser.cookies}


def test_another_person_has_other_roles(base: str) -> None:
    browser = ScriptedBrowser()
    browser.log_in_as("vera", f"{base}/login/corp")
    may = session(browser, base)["may"]
    assert isinstance(may, dict)
    assert (may["jobs"], may["cancel-others"]) == (True, False)


def test_the_flow_proves_itself_by_pkce_state_and_nonce(base: str) -> None:
    found = ScriptedBrowser().visit(f"{base}/login/corp")
    asked = parse_qs(urlsplit(found.headers["location"]).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["response_type"] == ["code"]
    assert asked["redirect_uri"] == [f"{base}{CALLBACK}"]
    assert len(asked["state"][0]) == len(asked["nonce"][0]) == 64
    cookie = found.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "path=/login" in cookie


def test_a_code_of_another_browser_logs_nobody_in(broker: LocalBroker, base: str) -> None:
    anna, victim = ScriptedBrowser(), ScriptedBrowser()
    anna.log_in_as("anna", f"{base}/login/corp", until=CALLBACK)
    stolen = anna.visited[-1]
    # The victim has begun no login, or another one.
    assert victim.visit(stolen).status == 401
    victim.visit(f"{base}/login/corp")
    refused = victim.visit(stolen)
    assert refused.status == 401
    assert b"not begun here" in refused.body
    assert SESSION not in {each.name for each in victim.cookies}


def test_a_code_is_good_for_one_login(broker: LocalBroker, base: str) -> None:
    browser = ScriptedBrowser()
    browser.log_in_as("anna", f"{base}/login/corp", until=CALLBACK)
    callback, (flow,) = browser.visited[-1], [c for c in browser.cookies if c.name == COOKIE]
    assert browser.visit(callback).status == 303
    again = ScriptedBrowser()
    again.cookies.set_cookie(flow)
    refused = again.visit(callback)
    assert refused.status == 401
    assert b"invalid_grant" in refused.body
    refusal = "anonymous login: 127.0.0.1 refuses"
    until(lambda: any(text.startswith(refusal) for text in details(broker, "denied")), "a refusal")


def test_a_login_that_is_broken_off_says_so_in_plain_text(base: str) -> None:
    browser = ScriptedBrowser()
    started = browser.visit(f"{base}/login/corp")
    (state,) = parse_qs(urlsplit(started.headers["location"]).query)["state"]
    refused = browser.visit(f"{base}{CALLBACK}?state={state}&error=%3Cscript%3E")
    assert refused.status == 401
    assert b"&lt;script&gt;" in refused.body
    assert b"<script>" not in refused.body


@pytest.mark.parametrize("path", ["/login/other", "/login/other/callback", "/login/corp/other"])
def test_there_is_no_login_with_others(base: str, path: str) -> None:
    assert ScriptedBrowser().visit(f"{base}{path}").status in (401, 404)


def test_a_cookie_that_is_no_flow_is_refused(base: str) -> None:
    for text in ("", "e30=", "%%%", "bm90IGpzb24="):
        found = ScriptedBrowser().visit(
            f"{base}{CALLBACK}?code=x&state=", Cookie=f"{COOKIE}={text}"
        )
        assert found.status == 401


def test_a_login_survives_a_restart_and_ends_with_a_revocation(
    provider: OidcProvider, tmp_path: Path
) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    browser = ScriptedBrowser()
    with broker_at(tmp_path, provider) as first:
        browser.log_in_as("anna", f"{first.endpoints['http']}/login/corp")
    with broker_at(tmp_path, provider) as second:
        base = second.endpoints["http"]
        found = session(browser, base)
        assert found["principal"] == "corp:anna"
        registry = KeyRegistry.open(tmp_path / "registry.json")
        registry.revoke_issued("jwt:corp:anna", "corp:anna", 0.0)
        until(lambda: browser.visit(f"{base}/session").status in (401, 403), "the session ends")
        page = browser.follow(browser.visit(f"{base}/login/corp"))
        if b"<form" in page.body and b"interaction" in page.body:
            page = browser.follow(browser.submit(page))
        assert page.status == 401
        assert b"revoked" in page.body
