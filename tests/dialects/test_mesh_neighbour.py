"""One neighbour: its services are workers, and stay workers while it has jobs of them."""

from dragoman.core.events import PeerLeft, WorkerJoined
from dragoman.dialects.mesh.neighbour import Neighbour
from dragoman.dialects.mesh.settings import NeighbourTerms
from dragoman.dialects.mesh.wire import Offer
from dragoman.model.labels import PREFETCH
from dragoman.model.names import JobId

MATH = Offer("math", 4, ["east"])
JOB = JobId("j1")


def neighbour() -> Neighbour:
    found = Neighbour("east", NeighbourTerms(lease=60.0))
    found.begin(b"east", "s1", 0.0, is_dialled=True)
    return found


def test_an_offer_is_a_worker_that_says_which_broker_it_is() -> None:
    (joined,) = neighbour().take_offers([MATH], "west")
    assert isinstance(joined, WorkerJoined)
    assert (joined.worker, joined.name, joined.credit) == ("mesh/east/math", "east/math", 4)
    assert joined.labels == {"broker": "east", PREFETCH: "96"}
    assert joined.route == ("east",)
    assert joined.holds is None
    assert joined.rejoins_within == 60.0


def test_the_same_offer_again_changes_nothing() -> None:
    found = neighbour()
    found.take_offers([MATH], "west")
    assert found.take_offers([MATH], "west") == []


def test_a_way_through_this_broker_is_not_taken() -> None:
    assert neighbour().take_offers([Offer("math", 4, ["east", "west"])], "west") == []


def test_a_service_that_is_gone_leaves_when_its_last_job_has_ended() -> None:
    found = neighbour()
    found.take_offers([MATH], "west")
    found.sent(JOB, found.worker("math"), 1, 1.0)
    (kept,) = found.take_offers([], "west")
    assert isinstance(kept, WorkerJoined)
    assert (kept.services, kept.credit) == ((), 0)
    assert found.take_offers([], "west") == []
    (left,) = found.ended(JOB)
    assert isinstance(left, PeerLeft)
    assert left.peer == "mesh/east/math"


def test_an_idle_service_that_is_gone_leaves_at_once() -> None:
    found = neighbour()
    found.take_offers([MATH], "west")
    (left,) = found.take_offers([], "west")
    assert isinstance(left, PeerLeft)
    assert left.grace == 0.0


def test_after_a_new_session_everything_is_registered_again() -> None:
    found = neighbour()
    found.take_offers([MATH], "west")
    found.begin(b"east", "s2", 5.0, is_dialled=True)
    assert [type(event) for event in found.take_offers([MATH], "west")] == [WorkerJoined]


def test_the_jobs_of_a_broken_link_wait_for_it() -> None:
    found = neighbour()
    found.take_offers([MATH], "west")
    (left,) = found.end("silent")
    assert isinstance(left, PeerLeft)
    assert left.grace == 60.0
    assert not found.is_present


def test_jobs_without_news_are_named() -> None:
    found = neighbour()
    found.sent(JOB, found.worker("math"), 1, 1.0)
    found.sent(JobId("j2"), found.worker("math"), 1, 9.0)
    assert found.silent_jobs(5.0) == [(JOB, 1)]
    found.reported(JOB, 8.0)
    assert found.silent_jobs(5.0) == []
