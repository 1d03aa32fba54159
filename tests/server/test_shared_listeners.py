"""Shared listeners: a key leads to the transport of its namespace, or nowhere."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from dragoman.security.namespace_keys import NamespaceKeys
from dragoman.security.registry import KeyRegistry
from dragoman.server.shared_listeners import SharedListeners
from dragoman.server.wiring import Admission
from dragoman.transports.nats_users import NatsAccount
from dragoman.web.browser_sessions import BrowserSessions

ACME, OWN, BOTH, STRANGER = (f"nkey:U{letter * 55}" for letter in "ABCD")


class SharedSite:
    """Two registries, and what the default namespace itself was asked."""

    def __init__(self, folder: Path) -> None:
        names = ("default", "acme")
        self.registries = {n: KeyRegistry.open(folder / f"{n}.json") for n in names}
        for name, key in (("acme", ACME), ("default", OWN), ("acme", BOTH), ("default", BOTH)):
            self.registries[name].add(key, f"p{key[6]}", now=1.0)
        keys = NamespaceKeys(self.registries, lambda: 2.0)
        self.shared = SharedListeners(keys, BrowserSessions(lambda: 2.0))
        self.asked: list[str] = []
        own = Admission(admits=self._admits, check_token=self._token, enrol=self._enrol)
        self.admission = self.shared.admission("default", own)
        assert self.shared.admission("acme", own) is own

    def _admits(self, key: str) -> bool:
        self.asked.append(key)
        return key == OWN

    def _token(self, secret: str) -> str | None:
        self.asked.append(secret)
        return None

    def _enrol(self, token: str, key: str, name: str) -> str:
        self.asked.append(token)
        return name


@pytest.fixture
def site(tmp_path: Path) -> SharedSite:
    return SharedSite(tmp_path)


def test_a_key_leads_to_the_transport_that_its_namespace_has_open(site: SharedSite) -> None:
    transport, route = object(), site.shared.route("nfp")
    place = site.shared.member_at("acme", "nfp")
    site.shared.endpoints = {"nfp": "tcp://127.0.0.1:5555"}
    assert route(ACME) is None
    assert place.join(transport) == "tcp://127.0.0.1:5555"
    assert route(ACME) is transport
    assert site.shared.route("dcp")(ACME) is None
    assert [route(key) for key in (OWN, BOTH, STRANGER)] == [None] * 3
    place.leave(transport)
    assert route(ACME) is None


def test_the_default_namespace_never_admits_the_key_of_another(site: SharedSite) -> None:
    admits = site.admission.admits
    assert admits is not None
    with capture_logs() as lines:
        assert [admits(key) for key in (ACME, OWN, BOTH, STRANGER)] == [False, True, False, False]
    # So the key of a tenant is not kept for approval there, either.
    assert site.asked == [OWN, STRANGER]
    assert [line["event"] for line in lines] == ["two namespaces have this key; revoke it"]


def test_tokens_and_invitations_are_checked_by_their_namespace(site: SharedSite) -> None:
    acme = site.registries["acme"]
    token, invitation = acme.new_token("sue", now=1.0), acme.new_enrolment(now=1.0)
    login, enrol = site.admission.login, site.admission.enrol
    assert login is not None
    assert enrol is not None
    # While it is away, the default namespace refuses them.
    assert login(token) is None
    checks = SimpleNamespace(check_token=lambda secret: "key", enrol=lambda *asked: "there")
    app: Any = object()
    site.shared.member_at("acme", "http").join(SimpleNamespace(checks=checks, app=app))
    site.asked.clear()
    assert (login(token), enrol(invitation, ACME, "new")) == ("key", "there")
    assert site.asked == []
    assert site.shared.app_of_token(token) is app
    assert site.shared.app_of_key(ACME) is app
    assert site.shared.app_of_key(OWN) is None
    assert (login("other"), enrol("other", ACME, "new")) == (None, "new")
    assert site.asked == ["other", "other"]


def test_an_nkey_of_two_namespaces_is_a_user_of_none(site: SharedSite) -> None:
    nkeys = {key.removeprefix("nkey:"): ("node",) for key in (ACME, OWN, BOTH)}
    own = {name: site.shared.own_nkeys(name, lambda: nkeys)() for name in site.registries}
    assert set(own["acme"]) == {ACME.removeprefix("nkey:")}
    assert set(own["default"]) == {OWN.removeprefix("nkey:")}


def test_each_namespace_at_the_nats_server_has_an_account(site: SharedSite) -> None:
    for name in ("globex", "acme"):
        account = NatsAccount(name, "U", ())
        member = SimpleNamespace(account=lambda account=account: account)
        site.shared.member_at(name, "nats").join(member)
    site.shared.member_at("acme", "nfp").join(object())
    assert [each.name for each in site.shared.nats_accounts()] == ["acme", "globex"]


def test_a_key_is_cut_at_the_listener_that_has_its_connections(site: SharedSite) -> None:
    cut: list[str] = []
    place = site.shared.member_at("acme", "http")
    place.cut(ACME)
    site.shared.hosts["http"] = SimpleNamespace(cut=cut.append)
    place.cut(ACME)
    assert cut == [ACME]
