"""A whole NCL fabric in memory: the real broker, its orchestrator side, compute nodes, and NATS.

`settle` delivers messages in the order they were published. Time passes only in `wait`. `traffic`
has every message, so that a test can inspect the wire.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, SendReply, SendStatus, SendWork
from dragoman.core.events import DeliveryFailed, Event, JobCancelled, JobSubmitted, TimeAdvanced
from dragoman.core.limits import Limits
from dragoman.core.recovery import fold, resume
from dragoman.dialects.base import MalformedMessage, Send, Subscribed
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.body_codec import NclBodyCodec
from dragoman.dialects.ncl.broker_side import NclBrokerSide
from dragoman.dialects.ncl.settings import ComputeSettings, OrchestratorSettings
from dragoman.dialects.ncl.store import NodeStore
from dragoman.dialects.ncl.worker_side import NclWorkerSide
from dragoman.dialects.peer_sides import Assigned, SendNow, Stop, WorkerNotice
from dragoman.ledger.rows import to_row
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.record import Record
from dragoman.model.target import ANY, Target
from dragoman.model.terms import Terms
from dragoman.server.side_recovery import SideRecovery

CLIENT = PeerId("test/client")
CODECS = {"ncl": NclBodyCodec()}


def matches(pattern: str, subject: str) -> bool:
    """Whether a subscription pattern matches a subject."""
    wanted, found = pattern.split("."), subject.split(".")
    return len(wanted) == len(found) and all(
        w in ("*", f) for w, f in zip(wanted, found, strict=True)
    )


def ids(prefix: str) -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"{prefix}-{next(numbers)}"


class Crossing:
    """One message on the wire."""

    def __init__(self, source: str, subject: str, frames: Sequence[bytes]) -> None:
        self.source, self.subject = source, subject
        self.body, self.headers, self.reply = frames[0], frames[1], frames[2].decode()

    @property
    def type(self) -> str:
        try:
            return wire.decode(self.body).metadata[wire.TYPE]
        except MalformedMessage:
            return ""

    def __repr__(self) -> str:
        return f"{self.source}: {self.subject} {self.type or self.body[:60]!r}"


class Node:
    """A compute node and the notices it received."""

    def __init__(self, fabric: "Fabric", side: NclWorkerSide) -> None:
        self.fabric, self.side = fabric, side
        self.works: list[Assigned] = []
        self.stops: list[Stop] = []

    def send(self, messages: Iterable[Sequence[bytes]]) -> None:
        for frames in messages:
            self.fabric.publish(self.side.name, frames[0].decode(), frames[1:])

    def hear(self, subject: str, frames: Sequence[bytes]) -> None:
        self.take(self.side.receive([subject.encode(), *frames]))

    def take(self, words: list[WorkerNotice]) -> None:
        for word in words:
            if isinstance(word, SendNow):
                self.send([word.frames])
            elif isinstance(word, Assigned):
                self.works.append(word)
                self.send(self.side.take(word.ticket))
            elif isinstance(word, Stop):
                self.stops.append(word)

    def finish(self, work: Assigned, answer: Answer) -> None:
        self.send(self.side.finish(work.ticket, answer))
        self.fabric.settle()


class Fabric:
    """The broker, its orchestrator side and its nodes."""

    def __init__(
        self, settings: OrchestratorSettings | None = None, limits: Limits | None = None
    ) -> None:
        self.now = 1_700_000_000.0
        self.settings = settings or OrchestratorSettings()
        self.limits = limits or Limits(recovery_grace=60.0)
        self.broker = Broker(self.limits)
        self.side = self._new_side()
        self.entries: list[tuple[Record, Body | None]] = []
        self.replies: list[SendReply] = []
        self.statuses: list[SendStatus] = []
        self.nodes: dict[str, Node] = {}
        self.traffic: list[Crossing] = []
        self.malformed: list[str] = []
        #: Drops the messages for which it returns True.
        self.loses: Callable[[Crossing], bool] = lambda crossing: False
        self.is_broker_up = True
        self._queue: deque[Crossing] = deque()

    def _new_side(self) -> NclBrokerSide:
        return NclBrokerSide(codecs=CODECS, ids=ids(f"broker-{self.now}"), settings=self.settings)

    # --- peers ----------------------------------------------------------------------------------

    def add(
        self,
        name: str = "n-1",
        services: tuple[str, ...] = ("math",),
        *,
        slots: int = 2,
        labels: dict[str, str] | None = None,
        settings: ComputeSettings | None = None,
        store: NodeStore | None = None,
        join: bool = True,
    ) -> Node:
        """Add a node, or restart it as a new process."""
        side = NclWorkerSide(
            name,
            services,
            ids=ids(f"{name}-{self.now}-{len(self.traffic)}"),
            clock=lambda: self.now,
            slots=slots,
            labels=labels,
            settings=settings,
            store=store,
        )
        node = self.nodes[name] = Node(self, side)
        if join:
            node.send(side.join())
            self.settle()
        return node

    def submit(
        self,
        job: str = "j1",
        task: str = "add",
        *args: object,
        service: str = "math",
        target: Target = ANY,
        terms: Terms | None = None,
        **kwargs: object,
    ) -> None:
        body = NclBodyCodec().write_call(Call(task, args, kwargs))
        self.handle(
            JobSubmitted(
                JobId(job), CLIENT, ServiceName(service), body, target, terms or Terms(), task
            )
        )

    def cancel(self, job: str = "j1") -> None:
        self.handle(JobCancelled(JobId(job), CLIENT))

    def handle(self, event: Event) -> None:
        self._do(self.broker.handle(event, self.now))
        self.settle()

    def final(self, job: str = "j1") -> SendReply:
        """Return the one final reply of a job."""
        (found,) = [r for r in self.replies if r.job == job and r.kind == "final"]
        return found

    def value(self, job: str = "j1") -> object:
        return NclBodyCodec().read_answer(self.final(job).body).value

    def kinds(self, job: str = "") -> list[str]:
        return [str(r.kind) for r, _ in self.entries if not job or r.job == job]

    # --- the wire -------------------------------------------------------------------------------

    def publish(self, source: str, subject: str, frames: Sequence[bytes]) -> None:
        """Publish a message."""
        crossing = Crossing(source, subject, frames)
        self.traffic.append(crossing)
        if not self.loses(crossing):
            self._queue.append(crossing)

    def settle(self) -> None:
        """Deliver until no message is queued."""
        while self._queue:
            self._deliver(self._queue.popleft())

    def _deliver(self, crossing: Crossing) -> None:
        frames = [crossing.body, crossing.headers, crossing.reply.encode()]
        is_heard = False
        if self.is_broker_up and self._is_for(self.side.subscriptions, crossing.subject):
            is_heard = True
            try:
                said = self.side.receive(crossing.subject.encode(), frames, self.now)
            except MalformedMessage as error:
                self.malformed.append(str(error))
            else:
                self._take(said)
        for node in list(self.nodes.values()):
            if self._is_for(node.side.subscriptions, crossing.subject):
                is_heard = True
                node.hear(crossing.subject, frames)
        if not is_heard and crossing.reply:
            self.publish("nats", crossing.reply, [b"", b'{"Status":"503"}', b""])

    @staticmethod
    def _is_for(patterns: Iterable[str], subject: str) -> bool:
        return any(matches(pattern, subject) for pattern in patterns)

    def _take(self, said: Sequence[Event | Send | Subscribed]) -> None:
        for item in said:
            if isinstance(item, Send):
                self.publish("broker", item.address.decode(), item.frames)
            else:
                assert not isinstance(item, Subscribed)
                self._do(self.broker.handle(item, self.now))

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.entries.append((effect.record, effect.body))
                to_row(effect.record)  # a real broker stops if a record cannot be stored
            elif isinstance(effect, SendReply):
                self.replies.append(effect)
            elif isinstance(effect, SendStatus):
                self.statuses.append(effect)
            else:
                self._render(effect)
        self.broker.validate()

    def _render(self, effect: Effect) -> None:
        if isinstance(effect, SendWork) and effect.body_seq:
            bodies = {record.seq: body for record, body in self.entries}
            effect = replace(effect, body=bodies[effect.body_seq] or EMPTY)
        try:
            sends = self.side.render(effect, self.now)
        except Unmappable as error:
            fault = Fault(FaultCode.UNMAPPABLE, str(error))
            job, attempt = getattr(effect, "job", None), getattr(effect, "attempt", 0)
            peer = getattr(effect, "worker", None) or CLIENT
            failed = DeliveryFailed(peer, False, job, attempt, fault)
            self._do(self.broker.handle(failed, self.now))
            return
        self._take(sends)

    # --- time -----------------------------------------------------------------------------------

    def wait(self, seconds: float, step: float = 1.0) -> None:
        """Advance the clock in steps; nodes, broker and side do what is due."""
        until = self.now + seconds
        while self.now < until - 1e-9:
            self.now = min(until, self.now + step)
            self.tick()

    def tick(self) -> None:
        for node in list(self.nodes.values()):
            node.send(node.side.beat())
        self.settle()
        if self.is_broker_up:
            self._do(self.broker.handle(TimeAdvanced(), self.now))
            due = self.side.next_deadline()
            if due is not None and due <= self.now:
                self._take(self.side.advance(self.now))
            self.settle()

    def restart_broker(self) -> None:
        """Kill the broker and start it again on its ledger."""
        self._queue.clear()
        bodies = {record.seq: body for record, body in self.entries}
        records = [record for record, _ in self.entries]
        self.side = self._new_side()
        self.broker, first = resume(fold(records), self.now, self.limits)
        SideRecovery({"ncl": self.side}, self.broker, bodies.get).restore(self.now)
        self._do(first)
        self.settle()

    def sent(self, type_name: str, source: str = "") -> list[Crossing]:
        """Return the messages of a type, of one sender if it is named."""
        return [c for c in self.traffic if c.type == type_name and source in ("", c.source)]
