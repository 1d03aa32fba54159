"""The ordered publisher: order, window, cumulative acks, replay, pauses."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.ncl.dataplane import Publisher
from dragoman.dialects.ncl.messages import CancelExecution

ACK_WAIT, WINDOW, BASE, LONGEST = 30.0, 3, 5.0, 300.0


def publisher(opened: bool = True, is_cumulative: bool = False) -> Publisher:
    made = Publisher(ACK_WAIT, WINDOW, BASE, LONGEST, is_cumulative)
    if opened:
        made.open(0)
    return made


def put(made: Publisher, *seqs: int) -> None:
    for seq in seqs:
        made.put(seq, CancelExecution(None, f"e{seq}"))


def seqs(made: Publisher, now: float) -> list[int]:
    return [item.seq for item in made.pump(now)]


def test_messages_leave_in_order_up_to_the_window() -> None:
    made = publisher()
    put(made, 2, 5, 9, 11)
    assert seqs(made, 0) == [2, 5, 9]
    assert seqs(made, 1) == []
    made.ack(2)
    assert seqs(made, 2) == [11]


def test_an_ack_settles_its_own_message_only() -> None:
    made = publisher()
    put(made, 1, 2, 3)
    seqs(made, 0)
    made.ack(2)
    assert made.settled == 0
    made.fail(1)
    assert seqs(made, 6) == [1, 3]
    made.ack(1)
    assert made.settled == 2
    made.ack(3)
    assert made.settled == 3


def test_cumulative_acks_settle_everything_before_them() -> None:
    made = publisher(is_cumulative=True)
    put(made, 1, 2, 3)
    seqs(made, 0)
    made.ack(2)
    assert made.settled == 2
    made.fail(1)
    assert seqs(made, 6) == [3]


def test_a_message_lost_with_a_connection_is_not_forgotten_for_a_later_ack() -> None:
    made = publisher()
    put(made, 1)
    seqs(made, 0)
    put(made, 2)
    seqs(made, 1)
    made.ack(2)
    made.replay()
    assert seqs(made, 2) == [1]


def test_a_missing_ack_replays_from_the_first_unacked_and_no_further_back() -> None:
    made = publisher()
    put(made, 1, 2, 3)
    seqs(made, 0)
    made.ack(1)
    made.advance(29.9)
    assert len(made.pump(29.9)) == 0
    made.advance(30)
    assert seqs(made, 34.9) == []
    assert seqs(made, 35) == [2, 3]


def test_pauses_double_to_the_longest_and_a_success_resets_them() -> None:
    made = publisher()
    put(made, 1)
    now, pauses = 0.0, []
    for _ in range(8):
        assert seqs(made, now) == [1]
        made.fail(now)
        due = made.next_deadline()
        assert due is not None
        pauses.append(due - now)
        now = due
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300]
    seqs(made, now)
    made.ack(1)
    put(made, 2)
    seqs(made, now)
    made.fail(now)
    assert made.next_deadline() == now + 5


def test_a_late_ack_settles_what_waits_to_be_sent_again() -> None:
    made = publisher()
    put(made, 1, 2)
    seqs(made, 0)
    made.fail(0)
    made.ack(1)
    assert seqs(made, 5) == [2]


def test_an_ack_of_what_was_never_sent_is_nothing() -> None:
    made = publisher()
    put(made, 1)
    seqs(made, 0)
    made.ack(99)
    assert len(made) == 1


def test_numbers_always_rise() -> None:
    made = publisher()
    put(made, 5, 5, 0, 6)
    assert seqs(made, 0) == [5, 6, 7]
    assert made.last == 8


def test_nothing_leaves_a_closed_session_and_all_unacked_goes_out_in_the_next() -> None:
    made = publisher()
    put(made, 1, 2)
    seqs(made, 0)
    made.ack(1)
    made.close()
    put(made, 3)
    assert seqs(made, 1) == []
    assert made.next_deadline() is None
    made.open(1)
    assert seqs(made, 2) == [2, 3]


def test_a_session_begins_with_everything_unacked_and_new_numbers_after_its_start() -> None:
    made = publisher(opened=False)
    put(made, 1, 2)
    made.open(10)
    put(made, 3)
    assert seqs(made, 0) == [1, 2, 11]


def test_a_new_connection_replays_at_once() -> None:
    made = publisher()
    put(made, 1, 2)
    seqs(made, 0)
    made.fail(0)
    made.replay()
    assert seqs(made, 0.1) == [1, 2]


def test_it_knows_what_it_holds() -> None:
    made = publisher()
    put(made, 1, 2)
    made.pump(0)
    made.ack(1)
    assert (made.holds(1), made.holds(2)) == (False, True)


@given(
    st.lists(
        st.one_of(
            st.just("put"),
            st.just("pump"),
            st.just("fail"),
            st.just("replay"),
            st.just("reopen"),
            st.integers(1, 30),
        ),
        max_size=60,
    )
)
def test_whatever_happens_every_message_is_sent_in_order_until_it_is_acked(
    steps: list[str | int],
) -> None:
    made, now = publisher(), 0.0
    sent: list[int] = []
    acked: set[int] = set()
    for step in steps:
        now += 400
        if step == "put":
            put(made, 0)
        elif step == "pump":
            sent = seqs(made, now)
            assert sent == sorted(sent)
            assert not acked.intersection(sent)
        elif step == "fail":
            made.fail(now)
        elif step == "replay":
            made.replay()
        elif step == "reopen":
            made.close()
            made.open()
        elif isinstance(step, int):
            if made.holds(step):
                acked.add(step)
            made.ack(step)
    delivered: list[int] = []
    for _ in range(100):
        now += 400
        made.advance(now)
        batch = seqs(made, now)
        delivered += batch
        for seq in batch:
            made.ack(seq)
    assert len(made) == 0
    assert delivered == sorted(set(delivered))
