"""Tenants on shared listeners: no peer of one namespace reaches anything of another."""

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.security.attacks.attacked_site import REFUSALS
from tests.security.tenants import TENANTS, Tenant, TenantSite, loop_of, worker_principals
from tests.security.test_live_security import DIALECTS, until
from tests.web.caller import Caller

from dragoman import Client
from dragoman.core.jobs import Job
from dragoman.model.record import Kind, Record
from dragoman.sdk.credentials import read_credentials
from dragoman.security.registry import KeyRegistry
from dragoman.testing.harness import LocalBroker
from dragoman.transports.nkeys import Nkey

pytestmark = pytest.mark.interop

MMI = "mmi.service.broker"
#: Dialects whose jobs are refused while no worker offers their service.
WITHOUT_QUEUE = ("zss",)
#: Management tasks that list things.
LISTS = ("show_jobs", "list_workers", "list_services", "list_clients", "list_keys", "get_logs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> TenantSite:
    return TenantSite(tmp_path_factory.mktemp("tenants"))


@pytest.fixture(scope="module")
def broker(site: TenantSite) -> Iterator[LocalBroker]:
    with site.broker() as running:
        yield running


@pytest.mark.parametrize("dialect", [*DIALECTS, "ncl"])
def test_one_service_name_is_two_services(
    site: TenantSite, broker: LocalBroker, dialect: str
) -> None:
    acme, globex = (Tenant(site, broker, name, dialect) for name in TENANTS)
    with acme, globex:
        assert (acme.whose(), globex.whose()) == ("acme", "globex")
        assert not worker_principals(broker, "default")
        key = site.key(f"own-{dialect}", "submitter")
        url = broker.url("nfp" if dialect == "ncl" else dialect)
        with Client(url, credentials=key) as own, pytest.raises(REFUSALS):
            own.options(timeout=2).call(acme.service, "whose")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_admin_of_one_namespace_reaches_nothing_of_another(
    site: TenantSite, broker: LocalBroker, dialect: str
) -> None:
    acme, globex = (Tenant(site, broker, name, dialect) for name in TENANTS)
    own = f"secret-{dialect}"
    key = site.tenant_key("globex", f"mal-{dialect}", "admin")
    with acme, globex, Client(broker.url(dialect), credentials=key) as mal:
        waiting = acme.client.options(timeout=60).submit(own, "wait")
        is_kept = dialect not in WITHOUT_QUEUE
        done = acme.client.options(timeout=20).submit(acme.service, "whose")
        assert done.result(20) == "acme"
        until(lambda: of_service(broker, "acme", own) or not is_kept, 10)
        for steal in (
            lambda: mal.job(done.id, acme.service).result(2),
            lambda: mal.job(waiting.id, own).cancel(2),
        ):
            with contextlib.suppress(*REFUSALS):
                assert steal() not in ("acme", "cancelled")
        # A guessed id is free in the other namespace: it is another job there.
        assert mal.options(timeout=20, job=done.id).call(acme.service, "whose") == "globex"
        seen = [repr(mal.options(timeout=20).call(MMI, task)) for task in LISTS]
        seen.append(repr(mal.options(timeout=20).call(MMI, "events", after=0, limit=5000)))
        # Its own jobs are there; so the lists are not just empty.
        assert any(f"mal-{dialect}" in text for text in seen)
        assert not [text for text in seen if own in text or "acme" in text]
    assert [job.is_final for job in of_service(broker, "acme", own)] == [False] * is_kept
    assert not of_service(broker, "globex", own)


def of_service(broker: LocalBroker, namespace: str, service: str) -> list[Job]:
    """Return the jobs of a service that a namespace keeps."""
    jobs = loop_of(broker, namespace).broker.state.store.jobs.values()
    return [job for job in jobs if job.service == service]


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d not in WITHOUT_QUEUE])
def test_the_limits_of_one_namespace_are_not_those_of_another(
    site: TenantSite, broker: LocalBroker, dialect: str
) -> None:
    name = f"flood-{dialect}"
    for each in TENANTS:
        key = site.tenant_key(each, name, "submitter")
        with Client(broker.url(dialect), credentials=key) as client:
            for _ in range(3):
                client.options(timeout=60).submit(f"flooded-{dialect}", "wait")
            until(partial(has_tried, broker, each, name, 3), 10)
    refused = [r for r in of_principal(broker, "globex", name) if r.kind == Kind.REFUSED]
    assert len(refused) == 2
    assert {r.kind for r in of_principal(broker, "acme", name)} == {Kind.SUBMITTED}


def has_tried(broker: LocalBroker, namespace: str, principal: str, times: int) -> bool:
    return len(of_principal(broker, namespace, principal)) == times


def of_principal(broker: LocalBroker, namespace: str, principal: str) -> list[Record]:
    """Return the submissions of a principal on record, taken or refused."""
    kinds = (Kind.SUBMITTED, Kind.REFUSED)
    found = loop_of(broker, namespace).ledger.read(0)
    return [r for r in found if r.principal == principal and r.kind in kinds]


def test_a_restart_keeps_the_namespaces_apart(tmp_path: Path) -> None:
    site = TenantSite(tmp_path)
    keys = {name: site.tenant_key(name, "sue", "submitter") for name in TENANTS}
    with site.broker() as broker:
        acme = Tenant(site, broker, "acme", "nfp")
        with acme:
            job = acme.client.options(timeout=20).submit(acme.service, "whose")
            assert job.result(20) == "acme"
    with site.broker() as broker:
        with Client(broker.url("nfp"), credentials=acme.key) as again:
            assert again.job(job.id, acme.service).result(20) == "acme"
        for name in ("globex", "default"):
            records = list(loop_of(broker, name).ledger.read(0))
            assert records
            assert not [record for record in records if record.job == job.id]
        with (
            Client(broker.url("nfp"), credentials=keys["globex"]) as other,
            pytest.raises(REFUSALS),
        ):
            other.job(job.id, acme.service).result(2)


def test_a_restart_of_the_default_namespace_leaves_the_others_at_work(tmp_path: Path) -> None:
    site = TenantSite(tmp_path)
    with (
        site.broker() as broker,
        Tenant(site, broker, "acme", "nfp") as by_nfp,
        Tenant(site, broker, "acme", "http") as by_http,
        Tenant(site, broker, "acme", "ncl") as by_nats,
    ):
        before = {name: loop_of(broker, name) for name in ("default", "acme")}
        with Client(broker.url("nfp"), credentials=site.folder / "admin.key") as admin:
            admin.options(timeout=20).call(MMI, "restart", 0.1)
        until(lambda: broker.server.loop not in (None, before["default"]), 20)
        for tenant in (by_nfp, by_http, by_nats):
            assert tenant.whose() == "acme"
        assert loop_of(broker, "acme") is before["acme"]


def test_a_revoked_key_of_a_namespace_is_out_at_once(site: TenantSite, broker: LocalBroker) -> None:
    tenant = Tenant(site, broker, "acme", "nfp")
    key = site.tenant_key("acme", "rex", "submitter")
    with tenant, Client(broker.url("nfp"), credentials=key) as rex:
        assert rex.options(timeout=20).call(tenant.service, "whose") == "acme"
        KeyRegistry.open(site.folder_of("acme") / "registry.json").revoke("rex")
        with Client(broker.url("nfp"), credentials=key) as back, pytest.raises(REFUSALS):
            back.options(timeout=2).call(tenant.service, "whose")


def test_a_key_of_two_namespaces_is_let_in_nowhere(site: TenantSite, broker: LocalBroker) -> None:
    key = site.tenant_key("acme", "twice", "submitter")
    acme = KeyRegistry.open(site.folder_of("acme") / "registry.json")
    globex = KeyRegistry.open(site.folder_of("globex") / "registry.json")
    for each in acme.keys_of("twice"):
        globex.add(each, "twice", now=time.time(), roles=("submitter",))
    with Client(broker.url("nfp"), credentials=key) as both, pytest.raises(REFUSALS):
        both.options(timeout=2).call(MMI, "show_totals")


def test_a_browser_and_a_token_see_their_own_namespace_at_the_shared_address(
    site: TenantSite, broker: LocalBroker
) -> None:
    caller = Caller(broker.endpoints["http"], site.folder / "keys" / "authority.pem")
    found = {}
    for name in TENANTS:
        token = read_credentials(site.tenant_key(name, f"web-{name}", "admin")).token
        bearer = {"Authorization": f"Bearer {token}"}
        assert (
            caller.post("/v1/jobs", {"service": f"web-{name}", "task": "t"}, **bearer).status < 300
        )
        made = caller.post("/login", {"token": token})
        assert made.status == 201
        cookie = made.headers["set-cookie"].partition(";")[0]
        assert caller.get("/session", Cookie=cookie).json["principal"] == f"web-{name}"
        by_cookie = caller.get("/v1/jobs", Cookie=cookie)
        assert by_cookie.body == caller.get("/v1/jobs", **bearer).body
        found[name] = by_cookie.body.decode() + caller.get("/metrics", **bearer).body.decode()
    for name, other in (TENANTS, TENANTS[::-1]):
        assert f"web-{name}" in found[name]
        assert f"web-{other}" not in found[name]


def test_an_invitation_of_a_namespace_leads_into_it(site: TenantSite, broker: LocalBroker) -> None:
    caller = Caller(broker.endpoints["http"], site.folder / "keys" / "authority.pem")
    acme = KeyRegistry.open(site.folder_of("acme") / "registry.json")
    tokens = [acme.new_enrolment(now=time.time(), names=("new-*",)) for _ in range(2)]
    key = f"nkey:{Nkey.new().public}"
    made = caller.post("/v1/enrol", {"token": tokens[0], "key": key, "name": "new-1"})
    assert made.status == 201
    registries = {
        name: KeyRegistry.open(site.folder_of(name) / "registry.json") for name in TENANTS
    }
    assert registries["acme"].keys_of("new-1") == [key]
    assert not registries["globex"].keys_of("new-1")
    # A key of another tenant cannot be drawn into the own namespace.
    theirs = f"nkey:{Nkey.new().public}"
    registries["globex"].add(theirs, "theirs", now=time.time())
    taken = caller.post("/v1/enrol", {"token": tokens[1], "key": theirs, "name": "new-2"})
    assert taken.status == 403
    assert registries["globex"].principal_of(theirs) == "theirs"
