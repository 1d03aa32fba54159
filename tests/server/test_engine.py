"""The engine: a strict send never leaves before the records it depends on, and all sends leave."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.core.builders import body, cancelled, finished, joined, peer, submitted
from tests.server.engine_bench import ACK, NOW, Bench, jobs, kinds

from dragoman.core.effects import Effect, SendBeat, SendReply, SendStatus, SendWork
from dragoman.core.events import (
    DrainRequested,
    Event,
    Noted,
    ReplyKind,
    ResultRequested,
    ScheduleDeclared,
    ScheduleTicked,
)
from dragoman.dialects.base import Send, Subscribed
from dragoman.ledger.base import Entry, LedgerError
from dragoman.model.body import EMPTY
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId
from dragoman.model.record import Kind
from dragoman.model.schedule import Schedule
from dragoman.server.engine import (
    DRAIN_LIMIT,
    LONGEST_SLEEP,
    Urgency,
)
from dragoman.server.rejections import PER_WINDOW
from dragoman.server.service_settings import ServiceSection
from dragoman.server.service_terms import ServiceTerms
from dragoman.transports.base import Sent


def test_strict_sends_wait_for_their_records_and_relaxed_ones_do_not() -> None:
    bench = Bench()
    assert jobs(bench.turn(submitted("strict"), submitted("relaxed", strict=False))) == ["relaxed"]
    assert bench.wire.flushed == 1
    assert bench.begin() == ["submitted", "submitted"]
    assert bench.wire.sent, "nothing was sent by beginning a write"
    assert jobs(bench.end()) == ["strict"]
    assert not bench.engine.has_unwritten


def test_work_that_waits_for_the_ledger_is_not_lost_if_its_worker_registers_again() -> None:
    bench = Bench()
    bench.turn(joined("w1", credit=None))
    bench.write()
    bench.turn(submitted("j1"))
    bench.begin()
    bench.turn(submitted("j2"))
    assert bench.turn(submitted("j3"), joined("w1", credit=None, holds=())) == []
    found = [*bench.end(), *bench.write()]
    assert [(e.job, e.attempt) for e in found if isinstance(e, SendWork)] == [
        *(("j1", 1), ("j2", 1), ("j3", 1)),
    ]
    polls = [(kind, each.job) for kind, each in zip(kinds(found), found, strict=True)]
    for job in ("j1", "j2", "j3"):
        assert polls.index(("SendWork", job)) < polls.index(("SendPoll", job))


def test_work_that_was_sent_is_lost_if_its_worker_registers_without_it() -> None:
    bench = Bench()
    bench.turn(joined("w1"), submitted("j1"))
    bench.write()
    bench.turn(joined("w1", holds=()))
    again = [each for each in bench.write() if isinstance(each, SendWork)]
    assert [(each.job, each.attempt) for each in again] == [("j1", 2)]


def test_what_comes_up_during_a_write_waits_for_the_next_one() -> None:
    bench = Bench()
    bench.turn(submitted("j1"))
    bench.begin()
    assert bench.turn(submitted("j2")) == []
    assert bench.engine.begin_write() == (), "a write is under way"
    assert [e.record.job for e in bench.engine.unwritten()] == ["j1", "j2"]
    assert jobs(bench.end()) == ["j1"]
    assert bench.engine.has_unwritten
    assert jobs(bench.write()) == ["j2"]
    assert list(bench.engine.unwritten()) == []


def test_a_send_without_records_waits_for_the_batch_that_is_being_written() -> None:
    bench = Bench()
    bench.turn(submitted("j1"))
    bench.begin()
    question = ResultRequested(JobId("j1"), peer("c2"))
    assert bench.turn(question) == [], "it would report what is not durable"
    assert kinds(bench.end()) == ["SendReply", "SendStatus"]
    assert kinds(bench.turn(question)) == ["SendStatus"], "now nothing is left to wait for"


def test_a_send_without_records_waits_for_every_record_before_it() -> None:
    bench = Bench()
    bench.turn(submitted("j1"))
    bench.begin()
    bench.turn(submitted("j2"))
    assert bench.turn(ResultRequested(JobId("j1"), peer("c2"))) == []
    assert jobs(bench.end()) == ["j1"]
    assert kinds(bench.write()) == ["SendReply", "SendStatus"]


def test_a_send_that_stands_before_its_record_waits_for_it() -> None:
    bench = Bench()
    bench.turn(joined("w1", can_cancel=True), submitted("j1", run_timeout=5.0))
    bench.write()
    assert bench.turn(now=NOW + 6) == [], "the cancel left before the end was recorded"
    assert kinds(bench.write()) == ["SendCancel", "SendReply"]


def test_a_strict_answer_of_a_side_leaves_after_the_records_of_its_turn() -> None:
    bench = Bench()
    assert bench.turn(submitted("j1"), ACK, submitted("j2")) == []
    assert [getattr(each, "job", each) for each in bench.write()] == ["j1", (b"ack",), "j2"]
    assert bench.turn(ACK) == [(b"ack",)], "nothing is left to wait for"
    assert bench.wire.flushed == 1


def test_a_relaxed_answer_of_a_side_leaves_at_once() -> None:
    bench = Bench()
    assert bench.turn(submitted("j1"), Send(b"peer", (b"hello",))) == [(b"hello",)]


def test_an_answer_waits_for_a_write_that_is_under_way() -> None:
    bench = Bench()
    bench.turn(submitted("j1", strict=False))
    bench.begin()
    assert bench.turn(ACK) == []
    assert bench.end() == [(b"ack",)]


@pytest.mark.parametrize(
    ("strict", "count", "urgency"),
    [
        (True, 0, Urgency.NONE),
        (True, 1, Urgency.NOW),
        (False, 1, Urgency.LATER),
        (False, DRAIN_LIMIT, Urgency.LATER),
        (False, DRAIN_LIMIT + 1, Urgency.NOW),
    ],
)
def test_records_are_urgent_if_a_send_waits_or_there_are_many(
    strict: bool, count: int, urgency: Urgency
) -> None:
    bench = Bench()
    bench.turn(*(submitted(f"j{n}", strict=strict) for n in range(count)))
    assert (bench.engine.urgency, bench.engine.pending) == (urgency, count)


def test_sends_that_wait_for_a_running_write_need_no_write_of_their_own() -> None:
    bench = Bench()
    bench.turn(submitted("j1"))
    bench.begin()
    bench.turn(ACK)
    assert bench.engine.urgency is Urgency.NONE
    assert bench.engine.begin_write() == ()


def test_listeners_get_each_batch_once_it_is_durable_and_its_sends_have_left() -> None:
    bench, heard = Bench(), []

    def listen(entries: Sequence[Entry]) -> None:
        heard.append((len(bench.wire.sent), [entry.record.seq for entry in entries]))

    bench.engine.listeners.append(listen)
    bench.turn(submitted("j1"))
    assert heard == []
    bench.write()
    bench.turn(submitted("j2"))
    bench.write()
    assert heard == [(1, [1]), (1, [2])]


def test_a_body_is_readable_before_and_after_its_record_is_durable() -> None:
    bench = Bench()
    bench.turn(submitted("j1"))
    assert bench.engine.archive.body(1) == body()
    assert bench.ledger.body(1) is None
    bench.write()
    assert bench.engine.archive.body(1) == body() == bench.ledger.body(1)
    assert bench.engine.archive._held == {}


def test_what_cannot_be_delivered_is_an_event_of_the_next_turn() -> None:
    bench = Bench()
    bench.turn(joined("w1"), submitted("j1", strict=False))
    assert bench.engine.next_due() == NOW + LONGEST_SLEEP
    bench.wire.outcome = Sent.FULL
    assert "SendWork" in kinds(bench.turn(submitted("j2", strict=False)))
    assert bench.engine.next_due() == 0.0
    bench.turn()
    bench.begin()
    counts = bench.engine.broker.state.store.counts
    assert (counts["undelivered"], counts["requeued"]) == (2, 1)


def test_a_request_that_the_ledger_cannot_give_ends_its_job_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(work: SendWork) -> SendWork:
        raise LedgerError("gone")

    bench = Bench()
    monkeypatch.setattr(bench.engine.archive, "with_request", fail)
    bench.turn(joined("w1", credit=2), submitted("j1"))
    bench.write()
    sent = next(each for each in bench.wire.sent if isinstance(each, SendWork))
    lost = replace(sent, body=EMPTY, body_seq=1)
    bench.wire.sent.clear()
    bench.engine.carry_out([lost], NOW)
    assert (bench.wire.sent, bench.engine.next_due()) == ([], 0.0)
    bench.engine.turn(NOW)
    records = [entry.record for entry in bench.engine.unwritten()]
    ended = next(record for record in records if record.kind == Kind.ENDED)
    assert "run `dragoman ledger verify`" in ended.detail
    assert "w1" not in [record.worker for record in records if record.kind == Kind.LEFT]


def test_a_side_hears_of_a_reply_before_it_leaves() -> None:
    bench = Bench()
    heard: list[tuple[Effect, list[Any]]] = []
    bench.engine.before_send = lambda effect, now: heard.append((effect, list(bench.wire.sent)))
    bench.turn(joined("w1"), submitted("j1"))
    bench.write()
    bench.turn(finished("w1", "j1"))
    bench.write()
    reply, sent_before = heard[-1]
    assert isinstance(reply, SendReply)
    assert (reply.kind, sent_before) == (ReplyKind.FINAL, [])


def test_an_event_of_the_server_is_handled_in_the_next_turn() -> None:
    bench = Bench()
    bench.engine.submit(DrainRequested())
    assert bench.engine.next_due() == 0.0
    bench.turn(submitted("j1"))
    assert bench.begin() == ["refused"]


def test_only_links_with_something_are_drained_and_only_due_sides_advance() -> None:
    bench = Bench()
    bench.engine.turn(NOW)
    assert (bench.wire.drained, bench.side.advanced) == (0, [])
    bench.side.due = NOW + 0.5
    bench.turn()
    assert (bench.wire.drained, bench.side.advanced) == (1, [])
    assert bench.engine.next_due() == NOW + 0.5
    bench.engine.turn(NOW + 0.4)
    assert bench.side.advanced == []
    bench.wire.sent.clear()
    bench.engine.turn(NOW + 0.5)
    assert (bench.side.advanced, bench.wire.sent) == ([NOW + 0.5], [(b"ack",)])
    assert bench.engine.next_due() == NOW + 0.5 + LONGEST_SLEEP


class OneTick:
    """A schedule with one tick."""

    def __init__(self, at: float, event: Event) -> None:
        self.at: float | None = at
        self.event = event

    def take_due(self, now: float) -> Sequence[Event]:
        if self.at is None or now < self.at:
            return ()
        self.at = None
        return (self.event,)

    def next_at(self) -> float | None:
        return self.at


def test_a_tick_that_is_due_is_handled_once_also_in_the_first_second() -> None:
    bench = Bench()
    bench.engine.ticks = OneTick(0.5, submitted("j1", patience=None))
    assert bench.engine.next_due() == 0.5
    bench.engine.turn(0.4)
    assert bench.engine.pending == 0
    bench.engine.turn(0.5)
    assert bench.begin() == ["submitted"]
    assert bench.engine.next_due() == 0.5 + LONGEST_SLEEP


def test_a_heartbeat_waits_for_no_record() -> None:
    bench = Bench()
    bench.turn(joined("w1", beat_every=1.0, missed_allowed=3))
    bench.write()
    bench.turn(submitted("j1", service="none", patience=None))
    bench.wire.sent.clear()
    bench.engine.carry_out([SendBeat(peer("w1"))], NOW)
    assert kinds(bench.wire.sent) == ["SendBeat"]


def test_a_side_that_nothing_called_is_not_asked_for_its_deadline() -> None:
    bench = Bench()
    bench.engine.next_due()
    asked = bench.side.asked
    for _ in range(5):
        bench.engine.turn(NOW)
        bench.engine.next_due()
    assert bench.side.asked == asked


def test_the_earlier_of_broker_and_sides_decides_when_a_turn_is_due() -> None:
    bench = Bench()
    bench.turn(submitted("j1", timeout=0.8, patience=None))
    assert bench.engine.next_due() == NOW + 0.8
    bench.side.due = NOW + 0.3
    bench.turn()
    assert bench.engine.next_due() == NOW + 0.3
    bench.links.announce(bench.link)
    assert bench.engine.next_due() == 0.0


def test_a_subscription_goes_to_the_feed() -> None:
    bench, taken = Bench(), []
    wish = Subscribed(peer("c1"), ("*",))
    bench.turn(wish)
    bench.engine.subscribe = lambda link, item: taken.append((link, item))
    bench.turn(wish)
    assert taken == [(bench.link, wish)]
    assert bench.engine.urgency is Urgency.NONE


def test_the_terms_of_a_service_apply_to_submissions() -> None:
    bench = Bench(ServiceTerms({"a": ServiceSection(durability="relaxed")}))
    assert jobs(bench.turn(submitted("j1"))) == ["j1"]
    assert bench.turn(submitted("j2", "b")) == []


def test_a_flood_of_bad_input_is_recorded_in_part() -> None:
    bench = Bench()
    bad = Noted(Kind.REJECTED, peer("p"), detail="odd")
    fine = Noted(Kind.PUBLISHED, peer("p"), detail="news")
    bench.turn(*[bad] * (PER_WINDOW + 5), fine)
    assert bench.begin() == ["rejected"] * PER_WINDOW + ["published"]


def final(sent: Sequence[Any]) -> Effect:
    (found,) = [e for e in sent if isinstance(e, SendReply) and e.kind is ReplyKind.FINAL]
    return found


def test_a_repeated_answer_gets_its_body_from_the_ledger() -> None:
    bench = Bench()
    bench.turn(joined("w1"), submitted("j1"), finished("w1", "j1"))
    first = final(bench.write())
    for part in bench.engine.broker.state.store.jobs[JobId("j1")].parts:
        part.body = None
    assert final(bench.turn(submitted("j1"))) == first
    (status,) = bench.turn(cancelled("j1"))
    assert isinstance(status, SendStatus)
    assert status.status is not None
    assert status.status.parts[0].body == body("result of w1")


def test_replies_of_some_services_are_completed_as_they_leave() -> None:
    bench = Bench()

    def reveal(reply: SendReply) -> SendReply:
        return SendReply(reply.client, reply.job, reply.kind, reply.service, body=body("secret"))

    bench.engine.reveal["a"] = reveal
    bench.turn(submitted("j1"), submitted("j2", "b"))
    sent = bench.write()
    assert [(each.job, each.body == body("secret")) for each in sent] == [
        ("j1", True),
        ("j2", False),
    ]


def test_a_write_that_was_not_begun_cannot_end() -> None:
    with pytest.raises(AssertionError, match="no write is under way"):
        Bench().engine.end_write(NOW)


def test_the_effects_of_a_recovery_are_written_before_they_leave() -> None:
    bench = Bench()
    effects = bench.engine.broker.handle(joined("w1"), NOW)
    effects += bench.engine.broker.handle(submitted("j1"), NOW)
    bench.engine.carry_out(effects, NOW)
    assert bench.wire.sent == []
    assert "SendWork" in kinds(bench.write())


HOOK = "https://hooks.example.org/"
UNLISTED = Fault(FaultCode.DENIED, "not listed")


def test_a_job_whose_webhook_is_not_allowed_is_refused_and_that_is_recorded() -> None:
    bench = Bench()
    asked: list[str] = []
    bench.engine.hook_fault = lambda url: (asked.append(url), UNLISTED)[1]  # type: ignore[func-returns-value]
    bench.turn(submitted("j1"), submitted("j2", webhook=HOOK))
    assert bench.begin() == ["submitted", "refused"]
    assert asked == [HOOK]


def test_a_tick_whose_webhook_is_not_allowed_makes_no_job() -> None:
    schedule = ScheduleDeclared("s", Schedule("s", "a", every=5))
    for fault, wanted in ((None, "submitted"), (UNLISTED, "refused")):
        bench = Bench()
        bench.turn(schedule)
        bench.write()
        bench.engine.hook_fault = lambda url, fault=fault: fault  # type: ignore[misc]
        bench.engine.ticks = OneTick(0.0, ScheduleTicked("s", 1005, submitted("j1", webhook=HOOK)))
        bench.turn()
        assert bench.begin() == ["ticked", wanted]


def test_what_arrived_together_is_one_batch() -> None:
    bench = Bench()
    bench.turn(*(submitted(f"j{n}") for n in range(DRAIN_LIMIT)))
    assert bench.begin() == ["submitted"] * DRAIN_LIMIT
