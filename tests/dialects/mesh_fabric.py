"""Real brokers that are linked in memory, each with its mesh side; time is an argument."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, SendReply, SendStatus
from dragoman.core.events import (
    Event,
    JobSubmitted,
    ReplyKind,
    ReplyReceived,
    TimeAdvanced,
    WorkerJoined,
)
from dragoman.core.recovery import fold, resume
from dragoman.dialects.base import Send
from dragoman.dialects.mesh.broker_side import MeshBrokerSide
from dragoman.dialects.mesh.sessions import MeshConfig
from dragoman.dialects.mesh.settings import NAME, NeighbourTerms
from dragoman.model.body import Body
from dragoman.model.fault import Fault
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName, link_of
from dragoman.model.record import Record
from dragoman.model.terms import Terms
from dragoman.server.links import peer_of
from dragoman.server.mesh_view import RegistryView
from dragoman.server.side_recovery import SideRecovery


class LinkedBroker:
    """One broker; `outbox` has what it sent to peers of its own."""

    def __init__(self, fabric: "MeshFabric", name: str, config: MeshConfig) -> None:
        self.name = name
        self.fabric = fabric
        self.config = config
        self.records: list[Record] = []
        self.bodies: dict[int, Body] = {}
        self.broker = Broker()
        self.side = self._make_side()
        self.outbox: list[Any] = []

    def _make_side(self) -> MeshBrokerSide:
        view = RegistryView(self.name, lambda: self.broker.state)
        return MeshBrokerSide(self.config, view, self.fabric.new_session)

    def tell(self, *events: Event) -> None:
        """Handle events, and send what follows."""
        for event in events:
            self.carry_out(self.broker.handle(event, self.fabric.now))

    def carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.records.append(effect.record)
                if effect.body is not None:
                    self.bodies[effect.record.seq] = effect.body
            elif link_of(peer_of(effect)) == NAME:
                self.send(self.side.render(effect, self.fabric.now))
            else:
                self.outbox.append(effect)
        self.broker.validate()

    def send(self, sends: Sequence[Event | Send]) -> None:
        for item in sends:
            if isinstance(item, Send):
                self.fabric.wire.append((self.name, item.address, list(item.frames)))
            else:
                self.tell(item)

    def restart(self) -> None:
        """End this process and start another one on the same records."""
        self.broker, effects = resume(fold(self.records), self.fabric.now)
        self.side = self._make_side()
        recovery = SideRecovery({NAME: self.side}, self.broker, self.bodies.get)
        recovery.restore(self.fabric.now)
        self.carry_out(effects)

    # --- its own peers ------------------------------------------------------------------------

    def worker(self, name: str = "w1", *services: str, **said: Any) -> None:
        """Register a worker."""
        offered = tuple(map(ServiceName, services or ("math",)))
        said = {"credit": 2, "credit_returns": True, "can_cancel": True, **said}
        self.tell(WorkerJoined(PeerId(f"local/{name}"), WorkerName(name), offered, **said))

    def submit(self, job: str = "j1", service: str = "math", **terms: Any) -> None:
        """Submit a job of this broker's own client."""
        body = Body("nfp", (b"question",))
        client, name = PeerId("local/client"), ServiceName(service)
        self.tell(JobSubmitted(JobId(job), client, name, body, terms=Terms(**terms), task="add"))

    def reply(
        self,
        job: str = "j1",
        kind: ReplyKind = ReplyKind.FINAL,
        fault: Fault | None = None,
        worker: str = "w1",
    ) -> None:
        """Let a worker of this broker reply."""
        body = Body("dcp", (b"said", kind.value.encode()))
        self.tell(ReplyReceived(PeerId(f"local/{worker}"), JobId(job), kind, body, fault))

    def sent(self, kind: type) -> list[Any]:
        """Return what was sent to peers of its own, by kind."""
        return [effect for effect in self.outbox if isinstance(effect, kind)]

    def answers(self) -> list[SendReply]:
        """Return the final replies to its own client."""
        return [r for r in self.sent(SendReply) if r.kind is ReplyKind.FINAL]

    def statuses(self) -> list[SendStatus]:
        return self.sent(SendStatus)

    def kinds(self, job: str = "j1") -> list[str]:
        """Return the kinds of a job's records."""
        return [record.kind for record in self.records if record.job == job]

    def services(self) -> dict[str, str]:
        """Return the services of other brokers: the worker and its room, by service."""
        workers = self.broker.state.registry.workers.values()
        return {s: f"{w.name}:{w.credit}" for w in workers if w.route for s in w.services}


class MeshFabric:
    """Some brokers and the wire between them. `pairs`: who connects to whom."""

    def __init__(self, *pairs: tuple[str, str], terms: NeighbourTerms | None = None) -> None:
        self.now = 1000.0
        self.wire: deque[tuple[str, bytes, list[bytes]]] = deque()
        #: Pairs of brokers between which nothing is carried.
        self.cut: set[frozenset[str]] = set()
        self._sessions = 0
        own = terms or NeighbourTerms()
        names = sorted({name for pair in pairs for name in pair})
        self.brokers = {
            name: LinkedBroker(
                self,
                name,
                MeshConfig(name, {b.encode(): own for a, b in pairs if a == name}, others=own),
            )
            for name in names
        }

    def __getitem__(self, name: str) -> LinkedBroker:
        return self.brokers[name]

    def new_session(self) -> str:
        self._sessions += 1
        return f"s{self._sessions}"

    def talk(self) -> None:
        """Carry every message, until there are none."""
        while self.wire:
            source, address, frames = self.wire.popleft()
            to = address.decode()
            if to in self.brokers and frozenset({source, to}) not in self.cut:
                broker = self.brokers[to]
                broker.send(broker.side.receive(source.encode(), frames, self.now))

    def wait(self, seconds: float, step: float = 0.5) -> None:
        """Let the time pass; run the timers of all sides and brokers."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(self.now + step, until)
            for broker in self.brokers.values():
                due, side_due = broker.broker.next_deadline(), broker.side.next_deadline()
                if due is not None and due <= self.now:
                    broker.tell(TimeAdvanced())
                if side_due is not None and side_due <= self.now:
                    broker.send(broker.side.advance(self.now))
            self.talk()
