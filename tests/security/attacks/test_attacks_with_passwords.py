"""Wrong, unknown, replaced and revoked passwords at a real broker; guessing; the records."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.web.caller import Caller, HttpResponse, until

from dragoman.security import passwords
from dragoman.security.login_budget import OF_A_NAME
from dragoman.security.passwords import hash_password
from dragoman.security.registry import KeyRegistry
from dragoman.testing.harness import LocalBroker

FORM = "application/x-www-form-urlencoded"


class PasswordSite:
    """A broker with one person who has a password."""

    def __init__(self, path: Path, password: str) -> None:
        self.registry = KeyRegistry.open(path / "registry.json")
        self.password = password
        self.set(password)
        self.admin = self.registry.new_token("boss", now=time.time(), roles=("admin",))
        security = {"enabled": True, "registry": self.registry.path}
        self.broker = LocalBroker("http", security=security, ledger={"seal": False})

    def set(self, password: str) -> None:
        stored = hash_password(password, os.urandom(16))
        self.registry.set_password("anna", stored, now=time.time(), roles=("viewer",))

    @property
    def caller(self) -> Caller:
        return Caller(self.broker.endpoints["http"])

    def log_in(self, name: str, password: str) -> HttpResponse:
        return self.caller.post("/login", {"name": name, "password": password})

    def session(self, cookie: str) -> int:
        return self.caller.get("/session", Cookie=cookie).status

    def records(self, kind: str) -> str:
        found = self.caller.get(
            f"/v1/history/records?kind={kind}&limit=50", Authorization=f"Bearer {self.admin}"
        )
        return json.dumps(found.json)


@pytest.fixture
def site(tmp_path: Path, canary: Callable[[str], str]) -> Iterator[PasswordSite]:
    made = PasswordSite(tmp_path, canary("password"))
    with made.broker:
        yield made


def cookie_of(found: HttpResponse) -> str:
    return found.headers["set-cookie"].partition(";")[0]


def test_a_password_logs_in_as_its_principal_with_its_roles(site: PasswordSite) -> None:
    found = site.log_in("anna", site.password)
    assert found.status == 201
    session = site.caller.get("/session", Cookie=cookie_of(found)).json
    assert session["principal"] == "anna"
    assert session["may"]["overview"]
    assert not session["may"]["revoke_key"]
    until(lambda: "login with a password from 127.0.0.1" in site.records("allowed"), "recorded")


def test_wrong_and_unknown_are_answered_alike(
    site: PasswordSite, canary: Callable[..., str]
) -> None:
    typed = canary("password in the field of the name")
    wrong, unknown = site.log_in("anna", "wrong password"), site.log_in(typed, "wrong password")
    assert (wrong.status, wrong.json) == (unknown.status, unknown.json)
    assert wrong.status == 401
    until(lambda: site.records("denied").count("wrong name or password") == 2, "both recorded")
    assert typed not in site.records("denied")


def test_a_form_says_no_more(site: PasswordSite) -> None:
    page = site.caller.get("/login")
    assert b'name="password"' in page.body
    raw = b"name=anna&password=wrong-one&next=%2F%23%2Fjobs"
    found = site.caller.ask("POST", "/login", raw=raw, Content_Type=FORM)
    assert found.status == 401
    assert b"The name or the password is wrong" in found.body
    assert b"wrong-one" not in found.body
    raw = f"name=anna&password={site.password}&next=%2F%23%2Fjobs".encode()
    found = site.caller.ask("POST", "/login", raw=raw, Content_Type=FORM)
    # The redirect leads to the dashboard.
    assert found.status == 200
    assert b'name="password"' not in found.body


def test_guessing_is_refused_after_a_few_failures(
    site: PasswordSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A cheap hash: on a busy machine ten dear ones take so long that attempts come back.
    monkeypatch.setattr(passwords, "_LOG_N", 4)
    site.set(site.password)
    found = [site.log_in("anna", f"guess number {n}").status for n in range(OF_A_NAME.burst)]
    assert found == [401] * OF_A_NAME.burst
    refused = site.log_in("anna", site.password)
    assert refused.status == 429
    assert 1 <= int(refused.headers["retry-after"]) <= OF_A_NAME.every
    # A token is no password: it is not held up.
    assert site.caller.post("/login", {"token": site.admin}).status == 201


@pytest.mark.parametrize("end", ["revoke", "replace"])
def test_a_login_ends_with_its_password(
    site: PasswordSite, canary: Callable[[str], str], end: str
) -> None:
    cookie = cookie_of(site.log_in("anna", site.password))
    assert site.session(cookie) == 200
    if end == "revoke":
        site.registry.revoke("anna")
    else:
        site.set(canary("another password"))
    until(lambda: site.session(cookie) in (401, 403), "the session ended")
    assert site.log_in("anna", site.password).status == 401


def test_a_hash_or_a_key_is_no_credential(site: PasswordSite) -> None:
    ((key, entry),) = (e for e in site.registry.entries().items() if e[0].startswith("password:"))
    for secret in (key, entry.hash, f"drgt_{key.partition(':')[2]}_{entry.hash}"):
        assert site.caller.get("/v1/jobs", Authorization=f"Bearer {secret}").status == 401
        assert site.log_in("anna", secret).status == 401
    assert site.password not in site.registry.path.read_text()
