"""The engine after a pause of its process, and with a ledger that fails."""

from tests.core.builders import joined, peer, submitted
from tests.server.engine_bench import NOW, Bench, jobs, kinds

from dragoman.core.events import (
    BeatReceived,
)
from dragoman.ledger.base import LedgerFull, LedgerMissing
from dragoman.model.fault import FaultCode
from dragoman.model.record import Kind
from dragoman.server.engine import (
    LATE,
    LONGEST_HOLD,
    LONGEST_SLEEP,
    REFUSE_AFTER,
)


def leased(bench: Bench) -> None:
    """Have a worker join whose lease ends after 3 seconds of silence."""
    bench.turn(joined("w1", beat_every=1.0, missed_allowed=3))
    bench.write()


def left(bench: Bench) -> list[str]:
    """Return why workers left, as recorded since the last write."""
    records = [entry.record for entry in bench.engine.unwritten()]
    return [record.detail for record in records if record.kind == Kind.LEFT]


def test_after_a_pause_the_messages_are_read_before_a_lease_is_judged() -> None:
    bench = Bench()
    leased(bench)
    bench.engine.next_due()
    bench.engine.turn(NOW + 60)  # the process stood still; nothing has been read yet
    assert left(bench) == []
    bench.turn(BeatReceived(peer("w1")), now=NOW + 60.1)
    bench.engine.turn(NOW + 60 + LONGEST_HOLD)
    assert left(bench) == []


def test_after_a_pause_a_silent_worker_still_loses_its_lease() -> None:
    bench = Bench()
    leased(bench)
    bench.engine.next_due()
    bench.engine.turn(NOW + 60)
    for n in range(1, int(LONGEST_HOLD)):
        assert bench.engine.next_due() == NOW + 60 + n * LONGEST_SLEEP
        bench.engine.turn(NOW + 60 + n)
        assert left(bench) == []
    assert bench.engine.next_due() == NOW + 60 + LONGEST_HOLD
    bench.engine.turn(NOW + 60 + LONGEST_HOLD)
    assert len(left(bench)) == 1


def test_a_pause_in_which_nothing_was_due_is_noticed() -> None:
    bench = Bench()
    bench.engine.turn(NOW)
    assert bench.engine.next_due() == NOW + LONGEST_SLEEP
    bench.engine.turn(NOW + 60)
    bench.turn(joined("w1", holds=()), submitted("j1"), now=NOW + 60.1)
    bench.write()
    bench.turn(joined("w1", holds=()), now=NOW + 60.2)  # sent before the job was
    records = [entry.record.kind for entry in bench.engine.unwritten()]
    assert "requeued" not in records
    assert kinds(bench.wire.sent) == ["SendPoll"], "the worker is asked instead"


def test_a_join_in_time_takes_back_what_the_worker_does_not_have() -> None:
    bench = Bench()
    bench.turn(joined("w1", holds=()), submitted("j1"))
    bench.write()
    bench.turn(joined("w1", holds=()))
    assert "requeued" in [entry.record.kind for entry in bench.engine.unwritten()]


def test_a_broker_that_is_always_late_still_judges() -> None:
    bench = Bench()
    leased(bench)
    for n in range(1, 5):
        bench.engine.next_due()
        bench.engine.turn(NOW + 60 * n)
    assert len(left(bench)) == 1


def test_a_pause_soon_after_another_one_holds_judgement_too() -> None:
    bench = Bench()
    leased(bench)
    bench.engine.next_due()
    bench.engine.turn(NOW + 60)
    bench.engine.next_due()
    bench.engine.turn(NOW + 120)  # it stood still again before it had judged
    assert left(bench) == []
    bench.turn(BeatReceived(peer("w1")), now=NOW + 120.1)
    bench.engine.next_due()
    bench.engine.turn(NOW + 120 + LONGEST_HOLD)
    assert left(bench) == []


def run_in_time(bench: Bench, start: float, end: float) -> None:
    """Turn every second after `start` until `end`, never late."""
    for second in range(1, int(end - start) + 1):
        bench.engine.next_due()
        bench.engine.turn(start + second)


def test_the_first_turn_may_be_late_already() -> None:
    bench = Bench()
    bench.side.due = 2.0
    assert bench.engine.next_due() == 2.0
    bench.engine.turn(60.0)
    assert bench.side.advanced == [], "nothing has been read yet"
    run_in_time(bench, 60.0, 60.0 + LONGEST_HOLD)
    assert bench.side.advanced == [60.0 + LONGEST_HOLD]


def test_a_pause_after_a_judgement_holds_the_next_one() -> None:
    bench = Bench()
    bench.engine.turn(0.0)
    bench.engine.next_due()
    bench.engine.turn(60.0)
    run_in_time(bench, 60.0, 100.0)  # it judges meanwhile
    bench.side.due = 101.0
    bench.links.touch(bench.link)
    bench.engine.next_due()
    bench.engine.turn(160.0)
    assert bench.side.advanced == []
    run_in_time(bench, 160.0, 160.0 + LONGEST_HOLD)
    assert bench.side.advanced == [160.0 + LONGEST_HOLD]


def test_only_more_than_the_allowance_is_late() -> None:
    bench = Bench()
    bench.side.due = NOW
    bench.engine.next_due()
    bench.engine.turn(NOW + LATE)
    assert bench.side.advanced == [NOW + LATE]


def test_a_join_is_believed_again_when_judgement_begins() -> None:
    bench = Bench()
    bench.engine.turn(NOW)
    bench.engine.next_due()
    bench.engine.turn(NOW + 60)
    bench.engine.next_due()
    bench.turn(joined("w1", holds=()), submitted("j1"), now=NOW + 60.1)
    bench.write()
    run_in_time(bench, NOW + 60, NOW + 60 + LONGEST_HOLD - 1)
    bench.engine.next_due()
    bench.turn(joined("w1", holds=()), now=NOW + 60 + LONGEST_HOLD)
    assert "requeued" in [entry.record.kind for entry in bench.engine.unwritten()]


def test_a_turn_in_time_judges_at_once() -> None:
    bench = Bench()
    leased(bench)
    for n in range(1, 40):
        bench.engine.next_due()
        bench.engine.turn(NOW + n / 10)
    assert len(left(bench)) == 1


def test_a_ledger_that_fails_for_a_moment_refuses_nobody() -> None:
    bench = Bench()
    bench.turn(submitted("j1"))
    bench.begin()
    bench.engine.write_failed(LedgerFull("no space"), NOW)
    bench.engine.write_failed(LedgerFull("no space"), NOW + REFUSE_AFTER - 0.1)
    assert bench.turn(submitted("j2")) == []
    assert jobs(bench.end()) == ["j1"]


def test_a_ledger_that_fails_longer_refuses_new_jobs_until_it_works() -> None:
    bench = Bench()
    bench.turn(submitted("j1"))
    bench.begin()
    bench.engine.write_failed(LedgerFull("no space"), NOW)
    bench.engine.write_failed(LedgerFull("no space"), NOW + REFUSE_AFTER)
    (refused,) = bench.turn(submitted("j2"))
    assert LedgerFull.summary in refused.fault.message
    assert jobs(bench.end()) == ["j1"]
    bench.engine.write_works()
    assert bench.turn(submitted("j3")) == []
    assert jobs(bench.write()) == ["j3"]
    bench.engine.write_works()
    assert bench.engine.next_due() != 0.0, "nothing changed, so nothing is due now"


def test_a_ledger_whose_files_are_missing_refuses_new_jobs_at_once() -> None:
    bench = Bench()
    bench.engine.write_failed(LedgerMissing("gone"), NOW)
    (refused,) = bench.turn(submitted("j1"))
    assert refused.fault.code is FaultCode.UNAVAILABLE
