"""Attacks of workers: registration without the right, names of others, forbidden hand-overs."""

import contextlib
from collections.abc import Iterator

import pytest
import zmq
from tests.security.attacks.attack_table import tried_in
from tests.security.attacks.attacked_site import (
    REFUSALS,
    attacked_site,
    nothing_of,
    position,
    records,
    refusals_of,
    troubles,
)
from tests.security.test_live_security import Site, lifting, until, workers

from dragoman import Client, Worker
from dragoman.dialects.dcp.wire import DcpRequest, encode
from dragoman.dialects.peer_sides import Assigned
from dragoman.sdk.credentials import read_credentials
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return attacked_site(tmp_path_factory.mktemp("workers"))


@pytest.fixture(scope="module")
def broker(site: Site) -> Iterator[LocalBroker]:
    with site.broker() as running:
        yield running


@pytest.mark.parametrize("dialect", tried_in("registration"))
def test_a_principal_without_the_right_to_register_offers_no_service(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    name = f"eve-{dialect}"
    key, before = site.key(name, "submitter"), position(broker)
    with pytest.raises(REFUSALS):
        lifting(broker, dialect, name, key).start()
    assert refusals_of(broker, name, before)
    assert name not in workers(broker)
    assert nothing_of(broker, name, ["joined"], before)


@pytest.mark.parametrize("dialect", tried_in("worker name"))
def test_a_worker_does_not_take_the_name_of_another(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    owner, thief = f"owner-{dialect}", f"thief-{dialect}"
    keys = site.key(owner, "worker"), site.key(thief, "worker")
    with lifting(broker, dialect, owner, keys[0]):
        before, counted = position(broker), troubles(broker, dialect)
        with contextlib.suppress(*REFUSALS):
            lifting(broker, dialect, owner, keys[1]).start(timeout=5)
        assert nothing_of(broker, thief, ["joined"], before)
        if dialect != "ncl":
            # A node of NCL cannot even say it: NATS refuses the subjects of another. A ZeroMQ
            # listener refuses an identity that another key uses.
            until(
                lambda: refusals_of(broker, thief, before) or troubles(broker, dialect) > counted,
                10,
            )
        assert owner in workers(broker), "the owner keeps its session"


@pytest.mark.parametrize("dialect", tried_in("hand-over"))
def test_a_job_is_not_handed_over_to_a_service_that_the_worker_may_not_use(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    """The client may use both services; the worker's own key decides."""
    names = f"passer-{dialect}", f"rich-{dialect}"
    keys = site.key(names[0], "lifter"), site.key(names[1], "operator")
    before = position(broker)
    worker = Worker(
        broker.url(dialect, for_workers=True),
        f"lift-{dialect}-passing",
        name=names[0],
        own_process_beats=False,
        credentials=keys[0],
    )

    def forward(work: Assigned) -> None:
        worker._membership.send(worker._side.forward(work.ticket, "vault", work.call))

    worker._handlers[Assigned] = forward
    with worker, Client(broker.url(dialect), names[1], credentials=keys[1]) as rich:
        job = rich.options(timeout=20).submit(f"lift-{dialect}-passing", "run")
        with pytest.raises(REFUSALS):
            job.result(timeout=20)
    until(lambda: refusals_of(broker, names[0], before), 10)
    (denied,) = refusals_of(broker, names[0], before)
    assert denied.service == "vault"
    assert [r.service for r in records(broker, "submitted", after=before)] == [
        f"lift-{dialect}-passing"
    ]


def test_a_worker_that_names_another_client_submits_in_its_own_name(
    site: Site, broker: LocalBroker
) -> None:
    """DCP has a field for the client of a request. A peer may not use it for another's address."""
    own = read_credentials(site.key("posing", "submitter"))
    before = position(broker)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context.socket(zmq.DEALER) as line:
        line.linger = 0
        line.curve_publickey, line.curve_secretkey = own.public.encode(), own.secret.encode()
        line.curve_serverkey = own.server.encode()
        line.connect(broker.endpoints["dcp"])
        request = DcpRequest(b"vault", b"somebody-else", (b"", b"x"))
        line.send_multipart(list(encode(request)))
        until(lambda: records(broker, "submitted", "refused", after=before), 10)
    context.term()
    (submitted,) = records(broker, "submitted", "refused", after=before)
    assert submitted.principal == "posing"
    assert "somebody-else" not in submitted.client
    (noted,) = records(broker, "rejected", after=before)
    assert "somebody-else" in noted.detail
