"""Bad input is recorded until it becomes a flood."""

from dragoman.model.names import PeerId
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
