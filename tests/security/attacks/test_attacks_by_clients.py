"""Attacks of clients on a secured broker, in every dialect, over real sockets.

Every attack is refused, and the refusal is recorded in the ledger under the attacker's principal.
"""

import contextlib
from collections.abc import Iterator

import pytest
from tests.security.attacks.attack_table import tried_in
from tests.security.attacks.attacked_site import (
    REFUSALS,
    attacked_site,
    is_refused,
    nothing_of,
    position,
    records,
    refusals_of,
)
from tests.security.test_live_security import Site, lifting, until

from dragoman import Client
from dragoman.sdk.errors import DragomanError
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop

#: Records that change a job or its result.
_CHANGES = ("dispatched", "ended", "result_forgotten")

#: Names that look like `resize`: Cyrillic, full width, invisible characters, another case.
CONFUSABLES = ("r\u0435size", "\uff52esize", "resize\u200b", "Resize", "resize ", "re\u0301size")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return attacked_site(tmp_path_factory.mktemp("attacked"))


@pytest.fixture(scope="module")
def broker(site: Site) -> Iterator[LocalBroker]:
    with site.broker() as running:
        yield running


@pytest.mark.parametrize("dialect", tried_in("job of another"))
def test_the_jobs_of_others_are_neither_read_nor_cancelled_nor_taken_by_their_id(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    names = [f"{n}-{dialect}" for n in ("alice", "mal", "worker")]
    keys = [
        site.key(n, role) for n, role in zip(names, ("submitter",) * 2 + ("worker",), strict=True)
    ]
    url, service = broker.url(dialect), f"lift-{dialect}"
    with (
        lifting(broker, dialect, names[2], keys[2]),
        Client(url, names[0], credentials=keys[0]) as owner,
        Client(url, names[1], credentials=keys[1]) as thief,
    ):
        job = owner.options(timeout=30).submit(service, "inc", x=41)
        assert job.result(timeout=30) == 42
        # Relaxed results leave before their records are on disk.
        until(lambda: [r for r in records(broker, "ended") if r.job == job.id], 10)
        before = position(broker)
        for body in (41, 42):
            assert is_refused(thief, service, "inc", arguments={"x": body}, job=job.id)
        for steal in (lambda: thief.job(job.id).result(3), lambda: thief.job(job.id).cancel(3)):
            with contextlib.suppress(*REFUSALS):
                assert steal() not in (42, "cancelled")
        with pytest.raises(REFUSALS):
            thief.job(job.id).forget()
        until(lambda: len(refusals_of(broker, names[1], before)) >= 2, 5)
    stolen = [r for r in records(broker, *_CHANGES, after=before) if r.job == job.id]
    assert stolen == []


@pytest.mark.parametrize("dialect", tried_in("confusable name"))
def test_a_service_that_looks_like_an_allowed_one_is_denied(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    name = f"rita-{dialect}"
    key, before = site.key(name, "resizer"), position(broker)
    with Client(broker.url(dialect), name, credentials=key) as rita:
        for service in CONFUSABLES:
            assert is_refused(rita, service, "run", timeout=1), service
    until(lambda: len(refusals_of(broker, name, before)) >= len(CONFUSABLES) - 1, 10)
    passed = [r for r in records(broker, "submitted", after=before) if r.principal == name]
    # ZSS has upper-case service names, so `Resize` is the same service there.
    assert {r.service for r in passed} <= {"resize"}


@pytest.mark.parametrize("dialect", tried_in("other target"))
def test_a_target_that_the_role_does_not_have_is_denied(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    name = f"tess-{dialect}"
    key, before = site.key(name, "resizer"), position(broker)
    targets = ("all", "resource:router-1", "label:a=b", "w1")
    with Client(broker.url(dialect), name, credentials=key) as tess:
        for target in targets:
            assert is_refused(tess, "resize", "run", target=target, timeout=3), target
    until(lambda: len(refusals_of(broker, name, before)) >= len(targets), 10)
    assert nothing_of(broker, name, ["submitted"], before)


@pytest.mark.parametrize("dialect", tried_in("flood of requests"))
def test_a_flood_over_the_limit_is_refused_and_others_are_served(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    names = f"flooder-{dialect}", f"calm-{dialect}", f"steady-{dialect}"
    keys = [
        site.key(n, r) for n, r in zip(names, ("submitter", "submitter", "worker"), strict=True)
    ]
    url, service = broker.url(dialect), f"lift-{dialect}"
    before = position(broker)
    with (
        lifting(broker, dialect, names[2], keys[2]),
        Client(url, names[0], credentials=keys[0]) as flooder,
        Client(url, names[1], credentials=keys[1]) as calm,
    ):
        jobs = [flooder.options(timeout=10).submit(service, "inc", x=n) for n in range(60)]
        assert calm.options(timeout=20).call(service, "inc", x=1) == 2
        until(lambda: refusals_of(broker, names[0], before), 10)
        if dialect != "memo":
            with pytest.raises(DragomanError, match="requests"):
                [job.result(timeout=10) for job in jobs]
    (first, *_) = refusals_of(broker, names[0], before)
    assert "second" in first.detail or "second" in str(first)
