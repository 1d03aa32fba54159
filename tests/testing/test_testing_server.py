"""The simulated server: what leaves when, and what a crash leaves behind."""

from tests.core.builders import joined, submitted
from tests.testing.house import House

from dragoman.core.effects import SendReply, SendWork
from dragoman.core.events import ReplyKind


def test_strict_sends_wait_for_the_disk_and_relaxed_ones_do_not() -> None:
    house = House()
    house.say(joined("w1"))
    house.run(2.0)
    house.say(submitted("j1"), submitted("j2", strict=False))
    house.run(0.5)
    assert {e.job for e in house.heard} == {"j2"}
    house.run(1.0)
    assert {e.job for e in house.heard} == {"j1"}


def test_one_batch_is_written_while_the_next_is_handled() -> None:
    house = House()
    house.say(submitted("j1"))
    house.run(0.5)
    house.say(submitted("j2"))
    assert house.run(0.6) == ["SendReply"]
    assert house.run(1.0) == ["SendReply"]


def test_a_crash_loses_what_was_not_synced_and_nothing_else() -> None:
    house = House()
    house.say(submitted("kept"))
    house.run(2.0)
    house.say(submitted("lost"))
    house.run(0.5)
    house.server.crash()
    house.say(submitted("said to nobody"))
    assert house.run(5.0) == []
    house.server.start()
    house.run(2.0)
    assert list(house.server.broker.state.store.jobs) == ["kept"]
    assert house.server.life == 2


def test_a_full_disk_lets_nothing_strict_leave_until_there_is_room() -> None:
    house = House()
    house.disk.is_full = True
    house.say(submitted("j1"))
    assert house.run(5.0) == []
    house.disk.is_full = False
    assert house.run(3.0) == ["SendReply"]


def test_a_full_disk_may_end_the_process_which_then_starts_again() -> None:
    house = House()
    house.server.stops_on_error = True
    house.disk.is_full = True
    house.say(submitted("j1"))
    house.run(0.5)
    house.disk.is_full = False
    assert (house.server.is_up, house.server.life) == (False, 1)
    house.run(3.0)
    assert (house.server.is_up, house.server.life) == (True, 2)
    assert house.server.broker.state.store.jobs == {}


def test_what_cannot_be_delivered_comes_back_as_an_event() -> None:
    house = House()
    house.server._deliver = lambda link, address: None
    house.say(joined("w1", credit=1), submitted("j1", strict=False))
    house.run(0.5)
    kinds = house.server.broker.state.store.counts
    assert kinds["undelivered"] >= 1
    assert kinds["requeued"] == 1


def test_an_answer_given_again_gets_its_body_from_the_ledger() -> None:
    house = House()
    house.say(joined("w1"), submitted("j1"))
    house.run(3.0)
    [work] = [e for e in house.heard if isinstance(e, SendWork)]
    submit_seq = house.server.broker.state.store.jobs[work.job].submit_seq
    again = SendReply(work.client, work.job, ReplyKind.FINAL, work.service, seq=submit_seq)
    house.server._send(again, 0)
    house.run(1.0)
    assert [e.body for e in house.heard] == [work.body]
