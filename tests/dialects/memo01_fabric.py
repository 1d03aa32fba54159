"""A broker with one memo01 link in memory, and a client and a worker shell around our own sides."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from dragoman.core.effects import Append, Effect, SendReply, SendWork
from dragoman.core.events import Event, TimeAdvanced
from dragoman.core.recovery import fold, resume
from dragoman.dialects.base import BodyCodecs, Frames, Send
from dragoman.dialects.memo01.body_codec import MemoBodyCodec
from dragoman.dialects.memo01.broker_side import MemoBrokerSide
from dragoman.dialects.memo01.client_side import MemoClientSide
from dragoman.dialects.memo01.settings import MemoSettings
from dragoman.dialects.memo01.worker_side import MemoWorkerSide
from dragoman.dialects.peer_sides import (
    Alive,
    Assigned,
    Finished,
    SendNow,
    Submission,
    WorkerNotice,
)
from dragoman.ledger.rows import to_row
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Answer, Call
from dragoman.model.names import JobId
from dragoman.model.record import Kind, Record
from dragoman.server.side_recovery import SideRecovery


class MemoFabric:
    """A broker with one memo01 link, and a network of requests around it."""

    def __init__(self, settings: MemoSettings | None = None) -> None:
        self.settings = settings
        self.now = 0.0
        self.records: list[Record] = []
        self.bodies: dict[int, Body | None] = {}
        self._connections = count(1)
        self._requests = count(0x80000000)
        #: Address -> who waits for the answer; those who are not answered stay here.
        self.open: dict[bytes, Callable[[bytes], None]] = {}
        self.restart()

    def restart(self) -> None:
        """Put a new broker in the old one's place; it knows what is on record."""
        self.open.clear()
        numbers = count(len(self.records))
        codecs: BodyCodecs = {"memo": MemoBodyCodec()}
        self.side = MemoBrokerSide(lambda: f"{next(numbers):012x}", codecs, self.settings)
        self.broker, first = resume(fold(self.records), self.now)
        self.recovery = SideRecovery({"memo": self.side}, self.broker, self.bodies.get)
        self.recovery.restore(self.now)
        self.carry_out(first)

    def connect(self) -> bytes:
        return next(self._connections).to_bytes(8)

    def request(
        self, connection: bytes, message: bytes, answered: Callable[[bytes], None]
    ) -> bytes:
        address = connection + next(self._requests).to_bytes(4)
        self.open[address] = answered
        self.take(self.side.receive(address, [message], self.now))
        return address

    def disconnect(self, connection: bytes) -> None:
        self.open = {a: f for a, f in self.open.items() if not a.startswith(connection)}
        self.take(self.side.receive(connection, [], self.now))

    def take(self, outcome: list[Event | Send]) -> None:
        for item in outcome:
            if isinstance(item, Send):
                self._send(item)
                continue
            self.carry_out(self.broker.handle(item, self.now))
        self.broker.validate()

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.records.append(effect.record)
                to_row(effect.record)  # what cannot be stored would end a real broker
                self.bodies[effect.record.seq] = effect.body
                continue
            if isinstance(effect, SendReply) and effect.seq:
                body = self.bodies[effect.seq] or EMPTY
                effect = replace(effect, body=body)
            if isinstance(effect, SendWork) and effect.body_seq:
                effect = replace(effect, body=self.bodies[effect.body_seq] or EMPTY)
            self.recovery.before(effect, self.now)
            for send in self.side.render(effect, self.now):
                self._send(send)

    def _send(self, send: Send) -> None:
        answered = self.open.pop(send.address, None)
        if answered is not None:
            answered(bytes(send.frames[0]))

    def wait(self, until: float) -> None:
        """Let time pass, deadline by deadline."""
        while True:
            due = [t for t in (self.broker.next_deadline(), self.side.next_deadline()) if t]
            at = min((t for t in due if t <= until), default=until)
            self.now = max(self.now, at)
            self.take([TimeAdvanced()])
            self.take(self.side.advance(self.now))
            if at >= until:
                return

    def kinds(self) -> list[str]:
        return [r.kind for r in self.records if r.kind != Kind.STARTED]


class ClientShell:
    """A client shell: its side, its tickets, what came back."""

    def __init__(self, fabric: MemoFabric) -> None:
        self.fabric = fabric
        self.connection = fabric.connect()
        self.side = MemoClientSide()
        self.finished: dict[str, Finished] = {}
        self.sent: dict[str, bytes] = {}

    def submit(self, job: str, call: Call, service: str = "math") -> bytes:
        ((ticket, message, _wait),) = self.side.submit(Submission(JobId(job), service, call))
        self.sent[job] = message
        return self.fabric.request(self.connection, message, lambda a: self.hear([ticket, a]))

    def again(self, job: str, address: bytes) -> None:
        """Send an open request again, on a new connection, as NNG does."""
        self.connection = self.fabric.connect()
        moved = self.connection + address[8:]
        self.fabric.open[moved] = lambda answer: self.hear([job.encode(), answer])
        message = self.sent[job]
        self.fabric.take(self.fabric.side.receive(moved, [message], self.fabric.now))

    def hear(self, frames: Frames) -> None:
        for notice in self.side.receive(frames):
            assert isinstance(notice, Finished)
            self.finished[notice.job] = notice


class WorkerShell:
    """A worker shell: its side, its open requests, the work it was given."""

    def __init__(
        self, fabric: MemoFabric, services: tuple[str, ...] = ("math",), slots: int = 1
    ) -> None:
        self.fabric = fabric
        self.connection = fabric.connect()
        self.side = MemoWorkerSide(services, slots)
        self.work: deque[Assigned] = deque()
        self.beats = 0
        #: Address, slot and message of the newest request.
        self.asked = (b"", b"", b"")
        self.say(self.side.join())

    def say(self, messages: list[Frames]) -> None:
        for slot, message in messages:
            # Its answer may come, and be answered, before this returns.
            before = self.asked
            address = self.fabric.request(
                self.connection,
                message,
                lambda a, s=slot: self.hear([s, a]),  # type: ignore[misc]
            )
            if self.asked == before:
                self.asked = (address, slot, message)

    def again(self) -> None:
        """Send the newest request again, on a new connection, as NNG does."""
        address, slot, message = self.asked
        self.connection = self.fabric.connect()
        moved = self.connection + address[8:]
        self.fabric.open[moved] = lambda answer: self.hear([slot, answer])
        self.fabric.take(self.fabric.side.receive(moved, [message], self.fabric.now))

    def hear(self, frames: Frames) -> None:
        self.take(self.side.receive(frames))

    def take(self, notices: list[WorkerNotice]) -> None:
        for notice in notices:
            if isinstance(notice, Assigned):
                self.work.append(notice)
            elif isinstance(notice, SendNow):
                self.say([notice.frames])
            else:
                assert isinstance(notice, Alive)
                self.beats += 1

    def finish(self, **answer: Any) -> Assigned:
        work = self.work.popleft()
        self.say(self.side.finish(work.ticket, Answer(**answer)))
        return work
