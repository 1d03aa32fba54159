"""Attacks of clients on a secured broker, in every dialect, over real sockets.

Every attack is refused, and the refusal is recorded: in the ledger, or, for a handshake, in the
counts of the listener and among the pending keys.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.security.test_live_security import DIALECTS, Site, lifting, until, workers

from dragoman import Client
from dragoman.dialects.peer_sides import Unsupported
from dragoman.model.record import Record
from dragoman.sdk.credentials import read_credentials, write_credentials
from dragoman.sdk.errors import DragomanError
from dragoman.sdk.issuing import new_credentials
from dragoman.security.keys import KeyState
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop

REFUSALS = (DragomanError, TimeoutError, OSError, Unsupported)
POLICY = """
[roles.resizer]
verbs = ["submit", "read-own", "cancel"]
services = ["resize"]
targets = ["any"]
"""
#: Names that look like `resize`: Cyrillic, full width, invisible characters, another case.
CONFUSABLES = ("r\u0435size", "\uff52esize", "resize\u200b", "Resize", "resize ", "re\u0301size")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("attacked"))
    with (site.folder / "policy.toml").open("a") as file:
        file.write(POLICY)
    return site


@pytest.fixture(scope="module")
def broker(site: Site) -> Iterator[LocalBroker]:
    with site.broker() as running:
        yield running


def records(broker: LocalBroker, *kinds: str, after: int = 0) -> list[Record]:
    loop = broker.server.loop
    assert loop is not None
    return [record for record in loop.ledger.read(after) if record.kind in kinds]


def position(broker: LocalBroker) -> int:
    loop = broker.server.loop
    assert loop is not None
    return loop.ledger.last_seq


def is_refused(client: Client, *args: Any, **options: Any) -> bool:
    """Tell whether a call got no result."""
    try:
        client.call(*args, **{"timeout": 3, **options})
    except REFUSALS:
        return True
    return False


@pytest.mark.parametrize("state", [KeyState.UNKNOWN, KeyState.PENDING, KeyState.EXPIRED])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_key_that_is_not_allowed_gets_nothing(
    site: Site, broker: LocalBroker, dialect: str, state: KeyState
) -> None:
    """The key is proved: the broker's authority signed it, and its token has the right form."""
    model = read_credentials(site.folder / "admin.key")
    from dragoman.cli.broker_files import find_settings
    from dragoman.cli.keys import authority

    settings = find_settings(Path(site.config), None)
    name = f"{state}-{dialect}"
    now = time.time()
    token = site.registry.new_token(name, now=now, roles=("admin",), expires_at=now - 1)
    made, keys = new_credentials(name, model.server, authority(settings), token)
    if state is not KeyState.UNKNOWN:
        at = {KeyState.PENDING: 0.0, KeyState.EXPIRED: now - 1}[state]
        kept = KeyState.PENDING if state is KeyState.PENDING else KeyState.ALLOWED
        for key in keys:
            site.registry.add(key, name, now=now, roles=("admin",), state=kept, expires_at=at)
    path = site.folder / f"{name}.key"
    write_credentials(path, made)
    before = position(broker)
    try:
        with Client(broker.url(dialect), name, credentials=path) as client:
            assert is_refused(client, "mmi.service.broker", "show_workers", timeout=2)
    except REFUSALS:
        pass
    assert not [r for r in records(broker, "submitted", after=before) if r.principal == name]
    if state is KeyState.UNKNOWN and dialect not in ("http",):
        site.registry.refresh(time.time())
        until(lambda: any(site.registry.state_of(k, 0.0) is KeyState.PENDING for k in keys), 5)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_jobs_of_others_are_neither_read_nor_cancelled_nor_taken_by_their_id(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    alice, mal = (site.key(f"{n}-{dialect}", "submitter") for n in ("alice", "mal"))
    url, service = broker.url(dialect), f"private-{dialect}"
    with Client(url, f"a-{dialect}", credentials=alice) as owner:
        job = owner.submit(
            service, "inc", x=41, timeout=60, job=f"{dialect:0<32}".encode().hex()[:32]
        )
        until(
            lambda: [r for r in records(broker, "submitted", "refused") if r.service == service], 10
        )
        submitted = [r for r in records(broker, "submitted") if r.service == service]
        before = position(broker)
        with Client(url, f"m-{dialect}", credentials=mal) as thief:
            ids = [record.job for record in submitted] or [job.id]
            assert is_refused(thief, service, "inc", x=41, job=ids[0])
            assert is_refused(thief, service, "inc", x=42, job=ids[0])
            for steal in (lambda: thief.job(ids[0]).result(1), lambda: thief.job(ids[0]).cancel(1)):
                with contextlib.suppress(*REFUSALS):
                    assert steal() not in (42, "cancelled")
        stolen = [r for r in records(broker, "ended", "cancel_asked", after=before) if r.job in ids]
        assert [r for r in stolen if r.principal.startswith("mal")] == []
        noted = records(broker, "refused", "denied", "rejected", after=before)
        assert [r for r in noted if r.principal == f"mal-{dialect}"] or dialect == "memo"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_service_that_looks_like_an_allowed_one_and_other_targets_are_denied(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    key, name = site.key(f"rita-{dialect}", "resizer"), f"rita-{dialect}"
    before = position(broker)
    with Client(broker.url(dialect), name, credentials=key) as rita:
        for service in CONFUSABLES:
            assert is_refused(rita, service, "run", timeout=1), service
        for target in ("all", "resource:router-1", "label:a=b", "w1"):
            assert is_refused(rita, "resize", "run", target=target, timeout=1), target
    passed = [r for r in records(broker, "submitted", after=before) if r.principal == name]
    assert [(r.service, r.target) for r in passed if r.service != "resize"] == []
    assert all(r.target in ("", "any") for r in passed), [r.target for r in passed]
    assert [r for r in records(broker, "refused", after=before) if r.principal == name]


@pytest.mark.parametrize("dialect", [*DIALECTS, "ncl"])
def test_a_principal_without_the_right_to_register_offers_no_service(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    name = f"eve-{dialect}"
    key = site.key(name, "submitter")
    before = position(broker)

    def denied() -> list[Record]:
        found = records(broker, "denied", "refused", after=before)
        return [record for record in found if record.principal == name]

    with contextlib.suppress(*REFUSALS), lifting(broker, dialect, name, key):
        until(denied, 15)
    until(denied, 15)
    assert name not in workers(broker)
    assert not [r for r in records(broker, "joined", after=before) if r.principal == name]
