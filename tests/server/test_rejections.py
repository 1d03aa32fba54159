"""Bad input is recorded until it becomes a flood."""

from dragoman.core.events import Noted
from dragoman.model.names import PeerId
from dragoman.model.record import Kind
from dragoman.server.rejections import PER_WINDOW, WINDOW, Rejections


def test_the_first_rejections_of_a_window_are_recorded_and_the_rest_are_counted() -> None:
    rejections = Rejections()
    peer = PeerId("nfp/bad")
    worth = [rejections.should_record(peer, 1.0) for _ in range(PER_WINDOW + 5)]
    assert worth == [True] * PER_WINDOW + [False] * 5
    assert rejections.total == PER_WINDOW + 5
    assert rejections.unrecorded == 5


def test_a_new_window_and_another_peer_start_at_zero() -> None:
    rejections = Rejections()
    for _ in range(PER_WINDOW + 1):
        rejections.should_record(PeerId("nfp/bad"), 1.0)
    assert rejections.should_record(PeerId("nfp/other"), 1.0)
    assert rejections.should_record(PeerId("nfp/bad"), 1.0 + WINDOW + 0.1)


def test_records_of_rejections_are_bounded_and_published_events_are_not() -> None:
    rejections = Rejections()
    rejected = Noted(Kind.REJECTED, PeerId("nfp/bad"), "no such target")
    found = [rejections.is_over_limit(rejected, 1.0) for _ in range(PER_WINDOW + 2)]
    assert found == [False] * PER_WINDOW + [True] * 2
    published = Noted(Kind.PUBLISHED, PeerId("nfp/bad"))
    assert not rejections.is_over_limit(published, 1.0)
