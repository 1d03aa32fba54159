"""The loop: drain, handle, append, then send. A strict consequence never leaves first."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.server.memory_server import CODEC, MemoryServer, answer, call_body, settle
from tests.server.test_feed import TellingSide

from dragoman.core.effects import Effect, SendWork
from dragoman.core.events import DrainRequested, Event, JobSubmitted
from dragoman.dialects.base import Send, Subscribed
from dragoman.dialects.local import wire
from dragoman.dialects.local.broker_side import LocalBrokerSide
from dragoman.ledger.base import Entry, LedgerError, LedgerFull, LedgerMissing
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.terms import Terms
from dragoman.server.clock import Clock
from dragoman.server.links import Link, Links
from dragoman.server.loop import Loop
from dragoman.server.rejections import PER_WINDOW
from dragoman.transports.base import Sent
from dragoman.transports.memory import MemoryHub


def submission(job: str, *, strict: bool = True) -> JobSubmitted:
    return JobSubmitted(
        JobId(job),
        PeerId("x/c"),
        ServiceName("math"),
        call_body("add", 1),
        terms=Terms(strict=strict),
    )


class HeldLedger(MemoryLedger):
    """A ledger whose appends wait until the test lets them through."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.asked = 0

    async def append(self, entries: Sequence[Entry]) -> int:
        self.asked += 1
        await self.gate.wait()
        return await super().append(entries)


def test_a_job_goes_to_the_worker_and_its_end_is_in_the_ledger() -> None:
    server = MemoryServer()

    async def scenario(server: MemoryServer) -> None:
        peer = server.worker("w", "math")
        await settle(server.has_workers)
        server.loop.submit(submission("j1"))
        await settle(lambda: peer.inbox)
        work = wire.decode(peer.inbox.popleft())
        assert isinstance(work, wire.LocalWork)
        peer.say(answer(work, 2))
        await settle(lambda: any(r.kind == "ended" for r in server.ledger.read()))

    server.run(scenario)
    kinds = [r.kind for r in server.ledger.read()]
    assert kinds == ["joined", "submitted", "dispatched", "ended"]


def test_strict_work_waits_for_the_disk_and_relaxed_work_does_not() -> None:
    ledger = HeldLedger()
    server = MemoryServer(ledger)

    async def scenario(server: MemoryServer) -> None:
        peer = server.worker("w", "math")
        server.loop.submit(submission("strict"))
        server.loop.submit(submission("relaxed", strict=False))
        await settle(lambda: peer.inbox)
        first = wire.decode(peer.inbox.popleft())
        assert isinstance(first, wire.LocalWork)
        assert first.job == "relaxed"
        for _ in range(50):
            await asyncio.sleep(0)
        assert not peer.inbox, "strict work left before its record was durable"
        ledger.gate.set()
        await settle(lambda: peer.inbox)

    server.run(scenario)


def test_what_comes_up_while_the_disk_is_busy_is_written_together() -> None:
    ledger = HeldLedger()
    server = MemoryServer(ledger)

    async def scenario(server: MemoryServer) -> None:
        server.worker("w", "math", credit=100)
        await settle(lambda: ledger.asked == 1)
        for n in range(20):
            server.loop.submit(submission(f"j{n}"))
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        ledger.gate.set()
        await settle(lambda: ledger.last_seq >= 41)

    server.run(scenario)
    assert ledger.asked == 2


class FullLedger(MemoryLedger):
    """A ledger whose disk is full at first."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def append(self, entries: Sequence[Entry]) -> int:
        if self.times:
            self.times -= 1
            raise LedgerFull("no space left")
        return await super().append(entries)


def test_a_full_disk_holds_everything_back_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.server.loop.RETRY_AFTER", 0.01)
    server = MemoryServer(FullLedger(3))

    async def scenario(server: MemoryServer) -> None:
        peer = server.worker("w", "math")
        await settle(lambda: server.loop.is_retrying)
        await settle(server.has_workers)
        server.loop.submit(submission("j1"))
        await settle(lambda: peer.inbox)

    server.run(scenario)
    assert [r.kind for r in server.ledger.read()] == ["joined", "submitted", "dispatched"]


@pytest.mark.parametrize(
    ("due", "wakes_at", "woken"),
    [(None, 5.0, 0), (None, None, 0), (4.0, 5.0, 1), (6.0, 5.0, 0), (4.0, None, 1)],
)
def test_a_send_outside_a_turn_wakes_the_loop_only_if_something_is_due_earlier(
    monkeypatch: pytest.MonkeyPatch, due: float | None, wakes_at: float | None, woken: int
) -> None:
    loop, wakes = MemoryServer().loop, list[bool]()
    monkeypatch.setattr(loop.engine, "next_due", lambda: due)
    monkeypatch.setattr(loop.links, "wake", lambda: wakes.append(True))
    loop._wakes_at = wakes_at
    loop._wake_if_due_earlier()
    assert len(wakes) == woken


class MissingLedger(MemoryLedger):
    """A ledger whose files are not there at first; waiting alone does not help."""

    is_missing = True

    async def append(self, entries: Sequence[Entry]) -> int:
        if self.is_missing:
            self.is_missing = False
            raise LedgerMissing("the folder was removed")
        return await super().append(entries)


def test_a_missing_ledger_refuses_jobs_at_once_though_nothing_else_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The loop's longest sleep does not wake it, and the next try comes after the refusal.
    monkeypatch.setattr("dragoman.server.loop.RETRY_AFTER", 0.5)
    monkeypatch.setattr("dragoman.server.engine.LONGEST_SLEEP", 3600.0)
    server = MemoryServer(MissingLedger())

    async def scenario(server: MemoryServer) -> None:
        server.loop.submit(submission("j1"))
        await settle(lambda: server.loop.broker.state.blocked_because)
        await settle(lambda: not server.loop.broker.state.blocked_because)

    server.run(scenario)
    # One write that succeeded, with one record.
    assert sum(server.loop.append_times.counts) == 1
    assert (sum(server.loop.append_sizes.counts), server.loop.append_sizes.total) == (1, 1)


class BrokenLedger(MemoryLedger):
    """A ledger that cannot be written any more."""

    async def append(self, entries: Sequence[Entry]) -> int:
        raise LedgerError("the disk is gone")


def test_a_broken_ledger_stops_the_broker_before_anything_is_promised() -> None:
    server = MemoryServer(BrokenLedger())

    async def scenario(server: MemoryServer) -> None:
        peer = server.worker("w", "math")
        server.loop.submit(submission("j1"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not peer.inbox

    with pytest.raises(LedgerError, match="disk is gone"):
        server.run(scenario)


def test_bad_input_is_recorded_and_others_are_served_on() -> None:
    server = MemoryServer()

    async def scenario(server: MemoryServer) -> None:
        server.hub.connect(b"bad").say([b"nonsense"])
        peer = server.worker("w", "math")
        server.loop.submit(submission("j1"))
        await settle(lambda: peer.inbox)

    server.run(scenario)
    rejected = [r for r in server.ledger.read() if r.kind == "rejected"]
    assert [r.peer for r in rejected] == ["local/bad"]
    assert "nonsense" in rejected[0].detail


def test_a_flood_of_bad_input_is_counted_and_does_not_fill_the_ledger() -> None:
    server = MemoryServer()

    async def scenario(server: MemoryServer) -> None:
        flood = server.hub.connect(b"bad")
        for _ in range(100):
            flood.say([b"nonsense"])
        await settle(lambda: server.loop.links.rejections.total == 100)

    server.run(scenario)
    assert sum(r.kind == "rejected" for r in server.ledger.read()) == PER_WINDOW


def test_work_for_a_vanished_worker_is_taken_back() -> None:
    server = MemoryServer()

    async def scenario(server: MemoryServer) -> None:
        server.worker("w", "math")
        await settle(server.has_workers)
        server.hub.disconnect(b"w")
        server.loop.submit(submission("j1"))
        await settle(lambda: any(r.kind == "requeued" for r in server.ledger.read()))

    server.run(scenario)
    kinds = [r.kind for r in server.ledger.read()]
    assert kinds[-3:] == ["dispatched", "undelivered", "requeued"]


def test_a_draining_broker_takes_nothing_new_in() -> None:
    server = MemoryServer()

    async def scenario(server: MemoryServer) -> None:
        server.loop.submit(DrainRequested())
        server.loop.submit(submission("j1"))
        await settle(lambda: server.ledger.last_seq)

    server.run(scenario)
    assert [(r.kind, r.fault) for r in server.ledger.read()] == [("refused", "draining")]


class Punctual(LocalBrokerSide):
    """A side that sets itself a deadline when it sends work."""

    def __init__(self) -> None:
        super().__init__({"local": CODEC})
        self.due: float | None = None
        self.was_on_time = asyncio.Event()

    def render(self, effect: Effect, now: float) -> list[Send]:
        if isinstance(effect, SendWork):
            self.due = now + 0.01
        return super().render(effect, now)

    def advance(self, now: float) -> list[Event | Send]:
        self.due = None
        self.was_on_time.set()
        return []

    def next_deadline(self) -> float | None:
        return self.due


def test_a_deadline_set_by_a_send_that_waited_for_the_disk_is_kept() -> None:
    ledger = HeldLedger()
    server = MemoryServer(ledger)
    side = Punctual()
    server.links = Links([Link(side, server.hub)])
    server.loop = Loop(server.broker, ledger, server.links, Clock())

    async def scenario(server: MemoryServer) -> None:
        server.worker("w", "math")
        server.loop.submit(submission("j1"))
        await settle(lambda: ledger.asked)
        for _ in range(50):
            await asyncio.sleep(0)
        ledger.gate.set()
        await side.was_on_time.wait()

    server.run(scenario)


async def fails_within(server: MemoryServer, error: type[Exception]) -> None:
    """Run the loop without stopping it; it must end by itself, with an error."""
    await server.links.open()
    async with asyncio.timeout(10):
        with pytest.raises(error):
            await server.loop.run()


def test_a_write_error_ends_a_loop_that_waits_for_traffic() -> None:
    server = MemoryServer(BrokenLedger())
    server.loop.submit(submission("j1"))
    asyncio.run(fails_within(server, LedgerError))


def test_a_write_error_ends_a_loop_that_waits_for_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.server.loop.WAITING_LIMIT", 0)
    server = MemoryServer(BrokenLedger())
    server.loop.submit(submission("j1"))
    asyncio.run(fails_within(server, LedgerError))


def test_a_bug_in_a_turn_ends_the_loop_after_everything_is_written() -> None:
    server = MemoryServer()
    server.loop.submit(submission("j1", strict=False))

    async def run() -> None:
        await server.links.open()
        serving = asyncio.create_task(server.loop.run())
        await settle(lambda: server.loop.engine.pending)
        server.loop.submit("no event")  # type: ignore[arg-type]
        async with asyncio.timeout(10):
            with pytest.raises(KeyError):
                await serving

    asyncio.run(run())
    assert [r.job for r in server.ledger.read()] == ["j1"]


def test_work_that_waited_for_the_disk_and_finds_nobody_is_requeued() -> None:
    ledger = HeldLedger()
    server = MemoryServer(ledger)

    async def scenario(server: MemoryServer) -> None:
        server.worker("w", "math")
        server.loop.submit(submission("j1"))
        await settle(lambda: ledger.asked)
        server.hub.disconnect(b"w")
        ledger.gate.set()
        await settle(lambda: any(r.kind == "requeued" for r in ledger.read()))

    server.run(scenario)


def test_a_deadline_of_the_broker_is_kept_without_traffic() -> None:
    server = MemoryServer()

    async def scenario(server: MemoryServer) -> None:
        terms = Terms(patience=0.01)
        event = JobSubmitted(
            JobId("j1"), PeerId("x/c"), ServiceName("math"), call_body("add", 1), terms=terms
        )
        server.loop.submit(event)
        await settle(lambda: any(r.kind == "ended" for r in server.ledger.read()))

    server.run(scenario)


def test_input_waits_while_too_much_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.server.loop.WAITING_LIMIT", 1)
    ledger = HeldLedger()
    server = MemoryServer(ledger)

    async def scenario(server: MemoryServer) -> None:
        server.loop.submit(submission("first"))
        await settle(lambda: ledger.asked)
        for job in ("j1", "j2", "j3"):
            server.loop.submit(submission(job))
        await settle(lambda: server.loop.engine.pending)
        server.loop.submit(submission("late"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert JobId("late") not in server.broker.state.store.jobs
        ledger.gate.set()
        await settle(lambda: JobId("late") in server.broker.state.store.jobs)

    server.run(scenario)


def test_everything_handled_is_written_before_a_stopped_loop_ends() -> None:
    ledger = HeldLedger()
    server = MemoryServer(ledger)

    async def scenario(server: MemoryServer) -> None:
        server.loop.submit(submission("j1"))
        await settle(lambda: ledger.asked)
        server.loop.submit(submission("j2", strict=False))
        await settle(lambda: server.loop.engine.pending)
        server.loop.stop()
        asyncio.get_running_loop().call_soon(ledger.gate.set)

    server.run(scenario)
    assert [r.job for r in ledger.read()] == ["j1", "j2"]


def test_a_loop_that_stops_on_a_full_disk_says_so() -> None:
    server = MemoryServer(FullLedger(10**9))

    async def scenario(server: MemoryServer) -> None:
        server.loop.submit(submission("j1", strict=False))
        await settle(lambda: server.loop.engine.pending)

    with pytest.raises(LedgerFull):
        server.run(scenario)


def test_the_effects_of_a_recovery_are_carried_out() -> None:
    server = MemoryServer()
    first = server.broker.handle(submission("j1", strict=False), 1.0)

    async def run() -> None:
        await server.links.open()
        serving = asyncio.create_task(server.loop.run(first))
        await settle(lambda: server.ledger.last_seq)
        server.loop.stop()
        await serving

    asyncio.run(run())
    assert next(server.ledger.read()).job == "j1"


class GatheringHub(MemoryHub):
    """A transport that sends only when it is flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.gathered: list[tuple[bytes, Sequence[bytes]]] = []

    def send(self, address: bytes, frames: Sequence[bytes]) -> Sent:
        self.gathered.append((address, frames))
        return Sent.YES

    def flush(self) -> None:
        gathered, self.gathered = self.gathered, []
        for address, frames in gathered:
            super().send(address, frames)


def test_events_that_a_subscriber_missed_are_flushed() -> None:
    hub = GatheringHub()
    peer = hub.connect(b"p")
    link = Link(TellingSide(), hub)
    server = MemoryServer()
    server.links = Links([link])
    server.loop = Loop(server.broker, server.ledger, server.links, Clock())

    async def scenario(server: MemoryServer) -> None:
        server.loop.submit(submission("j1"))
        await settle(lambda: server.ledger.last_seq == 1)
        server.loop.feed.subscribe(link, Subscribed(PeerId("odd/p"), ("*",)))
        await settle(lambda: peer.inbox)

    server.run(scenario)


def test_a_subscription_of_a_peer_and_each_durable_batch_reach_the_feed() -> None:
    hub = GatheringHub()
    peer = hub.connect(b"p")
    link = Link(TellingSide(), hub)
    server = MemoryServer()
    server.links = Links([link])
    server.loop = Loop(server.broker, server.ledger, server.links, Clock())
    assert server.loop.broker is server.broker
    batches: list[Sequence[Entry]] = []
    server.loop.listeners.append(batches.append)

    async def scenario(server: MemoryServer) -> None:
        server.loop.engine.subscribe(link, Subscribed(PeerId("odd/p"), ("*",)))
        server.loop.submit(submission("j1"))
        await settle(lambda: peer.inbox)
        await settle(lambda: batches)

    server.run(scenario)
    assert [entry.record.kind for entry in batches[0]] == ["submitted"]
    assert server.loop.reveal is server.loop.engine.reveal
