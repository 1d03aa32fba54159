"""One heap of timers."""

from dragoman.core.deadlines import Deadlines, TimerKind


def test_timers_are_due_in_order_of_time_and_then_of_asking() -> None:
    deadlines = Deadlines()
    for at, about in ((2.0, "second"), (1.0, "first"), (2.0, "third"), (9.0, "never")):
        deadlines.set(at, TimerKind.RETRY, about)
    found = []
    while (due := deadlines.pop_due(2.0)) is not None:
        found.append(due)
    assert found == [
        (TimerKind.RETRY, "first"),
        (TimerKind.RETRY, "second"),
        (TimerKind.RETRY, "third"),
    ]
    assert deadlines.next_at() == 9.0


def test_a_cancelled_timer_is_never_due_and_can_be_cancelled_again() -> None:
    deadlines = Deadlines()
    timer = deadlines.set(1.0, TimerKind.JOB, "job")
    deadlines.cancel(timer)
    deadlines.cancel(timer)
    deadlines.cancel(None)
    assert len(deadlines) == 0
    assert deadlines.next_at() is None
    assert deadlines.pop_due(5.0) is None


def test_a_timer_that_has_fired_can_be_cancelled_without_harm() -> None:
    deadlines = Deadlines()
    timer = deadlines.set(1.0, TimerKind.JOB, "job")
    assert deadlines.pop_due(1.0) == (TimerKind.JOB, "job")
    deadlines.cancel(timer)
    assert len(deadlines) == 0


def test_cancelled_timers_do_not_pile_up() -> None:
    deadlines = Deadlines()
    kept = deadlines.set(1e9, TimerKind.JOB, "kept")
    for n in range(10_000):
        deadlines.cancel(deadlines.set(1e6 + n, TimerKind.JOB, n))
    assert len(deadlines._heap) < 3000
    assert deadlines.next_at() == kept.at
