"""How many requests a client has open."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.memo01.window import Window


def fill(window: Window) -> list[int]:
    sent = []
    while window.has_room:
        sent.append(window.sent())
    return sent


def test_a_new_window_lets_a_few_requests_out_and_no_more() -> None:
    window = Window(start=4)
    assert len(fill(window)) == 4
    assert not window.has_room


def test_every_answer_makes_room_for_itself_and_one_more() -> None:
    window = Window(start=4)
    for number in fill(window):
        window.answered(number)
    assert window.size == 8
    assert window.open == 0


def test_a_drop_halves_the_window() -> None:
    window = Window(start=16)
    sent = fill(window)
    window.dropped(sent[0])
    assert window.size == 8
    assert not window.has_room


def test_drops_of_one_round_count_once() -> None:
    window = Window(start=16)
    for number in fill(window):
        window.dropped(number)
    assert window.size == 8
    window.dropped(window.sent())
    assert window.size == 4


def test_after_a_drop_the_window_grows_by_one_per_round() -> None:
    window = Window(start=16)
    sent = fill(window)
    window.dropped(sent[0])
    for number in sent[1:]:
        window.answered(number)
    # Fifteen answers are nearly two rounds of eight.
    assert window.size == 9


def test_a_withdrawn_request_changes_nothing_but_the_room() -> None:
    window = Window(start=4)
    window.withdrawn(fill(window)[0])
    assert (window.size, window.open) == (4, 3)


@given(st.integers(-3, 50), st.integers(-3, 40), st.lists(st.sampled_from("sadw"), max_size=200))
def test_the_window_stays_within_its_bounds(start: int, largest: int, story: list[str]) -> None:
    window, sent = Window(start, largest), list[int]()
    for step in story:
        if step == "s" and window.has_room:
            sent.append(window.sent())
        elif step != "s" and sent:
            end = {"a": window.answered, "d": window.dropped, "w": window.withdrawn}[step]
            end(sent.pop())
        assert 1 <= window.size <= max(1, largest)
        assert window.open == len(sent)
