"""The simulated server: when it sends, and what a crash loses."""

from tests.core.builders import joined, submitted
from tests.testing.server_bench import ServerBench

from dragoman.core.effects import SendReply, SendWork
from dragoman.core.events import ReplyKind


def test_strict_sends_wait_for_the_disk_and_relaxed_ones_do_not() -> None:
    bench = ServerBench()
    bench.say(joined("w1"))
    bench.run(2.0)
    bench.say(submitted("j1"), submitted("j2", strict=False))
    bench.run(0.5)
    assert {e.job for e in bench.heard} == {"j2"}
    bench.run(1.0)
    assert {e.job for e in bench.heard} == {"j1"}


def test_one_batch_is_written_while_the_next_is_handled() -> None:
    bench = ServerBench()
    bench.say(submitted("j1"))
    bench.run(0.5)
    bench.say(submitted("j2"))
    assert bench.run(0.6) == ["SendReply"]
    assert bench.run(1.0) == ["SendReply"]


def test_a_crash_loses_what_was_not_synced_and_nothing_else() -> None:
    bench = ServerBench()
    bench.say(submitted("kept"))
    bench.run(2.0)
    bench.say(submitted("lost"))
    bench.run(0.5)
    bench.server.crash()
    bench.say(submitted("said to nobody"))
    assert bench.run(5.0) == []
    bench.server.start()
    bench.run(2.0)
    assert list(bench.server.broker.state.store.jobs) == ["kept"]
    assert bench.server.life == 2


def test_a_full_disk_lets_nothing_strict_leave_until_there_is_room() -> None:
    bench = ServerBench()
    bench.disk.is_full = True
    bench.say(submitted("j1"))
    assert bench.run(5.0) == []
    bench.disk.is_full = False
    assert bench.run(3.0) == ["SendReply"]


def test_a_full_disk_may_end_the_process_which_then_starts_again() -> None:
    bench = ServerBench()
    bench.server.stops_on_error = True
    bench.disk.is_full = True
    bench.say(submitted("j1"))
    bench.run(0.5)
    bench.disk.is_full = False
    assert (bench.server.is_up, bench.server.life) == (False, 1)
    bench.run(3.0)
    assert (bench.server.is_up, bench.server.life) == (True, 2)
    assert bench.server.broker.state.store.jobs == {}


def test_what_cannot_be_delivered_comes_back_as_an_event() -> None:
    bench = ServerBench()
    bench.server.deliver = lambda link, address: None
    bench.say(joined("w1", credit=1), submitted("j1", strict=False))
    bench.run(0.5)
    kinds = bench.server.broker.state.store.counts
    assert kinds["undelivered"] >= 1
    assert kinds["requeued"] == 1


def test_an_answer_given_again_gets_its_body_from_the_ledger() -> None:
    bench = ServerBench()
    bench.say(joined("w1"), submitted("j1"))
    bench.run(3.0)
    [work] = [e for e in bench.heard if isinstance(e, SendWork)]
    submit_seq = bench.server.broker.state.store.jobs[work.job].submit_seq
    again = SendReply(work.client, work.job, ReplyKind.FINAL, work.service, seq=submit_seq)
    bench.server.engine.carry_out([again], bench.world.now)
    bench.run(1.0)
    assert [e.body for e in bench.heard] == [work.body]
