"""Bad input is recorded until it becomes a flood."""

from dragoman.core.events import Noted
from dragoman.model.names import PeerId
from dragoman.model.record import Kind
from dragoman.server.rejections import PER_WINDOW, WINDOW, Rejections


def test_the_first_of_a_window_are_worth_a_record_and_the_rest_are_counted() -> None:
    rejections = Rejections()
    peer = PeerId("nfp/bad")
    worth = [rejections.is_worth_a_record(peer, 1.0) for _ in range(PER_WINDOW + 5)]
    assert worth == [True] * PER_WINDOW + [False] * 5
    assert rejections.total == PER_WINDOW + 5
    assert rejections.unrecorded == 5


def test_a_new_window_and_another_peer_start_anew() -> None:
    rejections = Rejections()
    for _ in range(PER_WINDOW + 1):
        rejections.is_worth_a_record(PeerId("nfp/bad"), 1.0)
    assert rejections.is_worth_a_record(PeerId("nfp/other"), 1.0)
    assert rejections.is_worth_a_record(PeerId("nfp/bad"), 1.0 + WINDOW + 0.1)


def test_what_a_side_turns_away_is_bounded_and_what_peers_publish_is_not() -> None:
    rejections = Rejections()
    rejected = Noted(Kind.REJECTED, PeerId("nfp/bad"), "no such target")
    found = [rejections.is_too_much(rejected, 1.0) for _ in range(PER_WINDOW + 2)]
    assert found == [False] * PER_WINDOW + [True] * 2
    published = Noted(Kind.PUBLISHED, PeerId("nfp/bad"))
    assert not rejections.is_too_much(published, 1.0)
