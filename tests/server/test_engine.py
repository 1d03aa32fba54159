"""The engine: a strict send never leaves before the records it depends on, and all sends leave."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.core.builders import body, cancelled, finished, joined, peer, submitted

from dragoman.core.broker import Broker
from dragoman.core.effects import Effect, SendReply, SendStatus, SendWork
from dragoman.core.events import (
    BeatReceived,
    DrainRequested,
    Event,
    Noted,
    ReplyKind,
    ResultRequested,
)
from dragoman.dialects.base import Send, Subscribed
from dragoman.ledger.base import Entry, LedgerFull, LedgerMissing
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId
from dragoman.model.record import Kind
from dragoman.server.archive import Archive
from dragoman.server.engine import (
    DRAIN_LIMIT,
    LONGEST_HOLD,
    LONGEST_SLEEP,
    REFUSE_AFTER,
    BrokerEngine,
    Urgency,
)
from dragoman.server.links import Link, Links
from dragoman.server.rejections import PER_WINDOW
from dragoman.server.service_terms import ServiceTerms
from dragoman.server.settings import ServiceSection
from dragoman.testing.pass_through_side import PassThroughSide
from dragoman.transports.base import Sent

ACK = Send(b"peer", (b"ack",), is_strict=True)
NOW = 1000.0


class Side(PassThroughSide):
    """Passes on whatever arrives; advances when the test says so."""

    def __init__(self) -> None:
        self.due: float | None = None
        self.advanced: list[float] = []
        self.asked = 0

    def receive(self, address: Any, message: Any, now: float) -> Any:
        return message

    def advance(self, now: float) -> Any:
        self.advanced.append(now)
        self.due = None
        return [ACK]

    def next_deadline(self) -> float | None:
        self.asked += 1
        return self.due


class Wire:
    """A transport that keeps everything: what is to be drained, what was sent and flushed."""

    def __init__(self) -> None:
        self.inbox: deque[tuple[bytes, Any]] = deque()
        self.sent: list[Any] = []
        self.flushed = 0
        self.drained = 0
        self.outcome = Sent.YES

    def drain(self, limit: int) -> Iterator[tuple[bytes, Any]]:
        self.drained += 1
        while self.inbox:
            yield self.inbox.popleft()

    def send(self, address: Any, frames: Any) -> Sent:
        self.sent.append(frames)
        return self.outcome

    def flush(self) -> None:
        self.flushed = len(self.sent)

    async def open(self, wake: Any) -> str:
        return ""

    async def close(self) -> None:
        pass


class Bench:
    def __init__(self, terms: ServiceTerms | None = None) -> None:
        self.side, self.wire = Side(), Wire()
        self.links = Links([Link(self.side, self.wire)])
        self.link = self.links.by_name["local"]
        self.ledger = MemoryLedger()
        self.engine = BrokerEngine(Broker(), self.links, Archive(self.ledger), terms)

    def turn(self, *items: Event | Send | Subscribed, now: float = NOW) -> list[Any]:
        """Let the side return items in one turn; return what was sent meanwhile."""
        self.wire.inbox.append((b"peer", items))
        self.links.announce(self.link)
        self.wire.sent.clear()
        self.engine.turn(now)
        return list(self.wire.sent)

    def begin(self) -> list[str]:
        entries = self.engine.begin_write()
        self.ledger.write(entries)
        return [entry.record.kind for entry in entries]

    def end(self) -> list[Any]:
        self.ledger.sync()
        self.wire.sent.clear()
        self.engine.end_write(NOW)
        assert self.wire.flushed == len(self.wire.sent), "sent, but not flushed"
        return list(self.wire.sent)

    def write(self) -> list[Any]:
        self.begin()
        return self.end()


def kinds(sent: Sequence[Any]) -> list[str]:
    return [type(each).__name__ for each in sent]


def jobs(sent: Sequence[Any]) -> list[str]:
    return [each.job for each in sent]


def test_strict_sends_wait_for_their_records_and_relaxed_ones_do_not() -> None:
    bench = Bench()
    assert jobs(bench.turn(submitted("strict"), submitted("relaxed", strict=False))) == ["relaxed"]
    assert bench.wire.flushed == 1
    assert bench.begin() == ["submitted", "submitted"]
    assert bench.wire.sent, "nothing was sent by beginning a write"
    assert jobs(bench.end()) == ["strict"]
    assert not bench.engine.has_unwritten


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
    assert kinds(bench.turn(submitted("j2", strict=False)))[-1] == "SendWork"
    assert bench.engine.next_due() == 0.0
    bench.turn()
    bench.begin()
    counts = bench.engine.broker.state.store.counts
    assert (counts["undelivered"], counts["requeued"]) == (3, 1)


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
    assert isinstance(bench.write()[-1], SendWork)


# --- a broker that stood still --------------------------------------------------------------------


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
