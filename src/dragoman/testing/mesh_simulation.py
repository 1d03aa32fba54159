"""Worlds of two or three brokers that work for each other, while brokers and links fail.

Clients and workers are sound. So each job must run once, wherever its client and its worker are,
and whatever happens to the brokers and the links between them.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

from dragoman.core.events import Event, WorkerJoined
from dragoman.core.limits import Limits
from dragoman.dialects.mesh.broker_side import MeshBrokerSide
from dragoman.dialects.mesh.sessions import MeshConfig
from dragoman.dialects.mesh.settings import HOLD, NAME, NeighbourTerms
from dragoman.ledger.disk import FaultyDisk
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.job import FINAL
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind
from dragoman.model.terms import read_terms
from dragoman.server.mesh_view import RegistryView
from dragoman.testing.mesh_links import MeshConnection
from dragoman.testing.mesh_peers import MeshClient, MeshWorker
from dragoman.testing.network import MessageFaults, Network
from dragoman.testing.oracle import Oracle, PromiseBroken
from dragoman.testing.pass_through_side import PassThroughSide
from dragoman.testing.server import SimServer
from dragoman.testing.simulation import Outcome
from dragoman.testing.workload import LINK
from dragoman.testing.world import EPOCH, World

FAULT_SECONDS: Final = 40.0
LIVENESS: Final = 240.0
#: A job that ended at its first broker may run on for so long: a cancel has to cross the links.
STOP_WITHIN: Final = 30.0
LIMITS: Final = Limits(retention=1e9, hops=4)
#: Longer than any fault lasts.
TERMS: Final = NeighbourTerms(credit=4, lease=120.0)
#: Which services the workers of each broker offer; `everywhere` is offered by all.
SERVICES: Final = {"a": ("at-a",), "b": ("at-b",), "c": ("at-c",)}
#: The connections: a line, a line the other way, and a ring.
SHAPES: Final = (
    (("a", "b"), ("b", "c")),
    (("b", "a"), ("c", "b")),
    (("a", "b"), ("b", "c"), ("c", "a")),
    (("a", "b"), ("b", "a"), ("c", "b")),
)


class SimBroker:
    """One broker of the mesh, with its clients and workers."""

    def __init__(self, mesh: "MeshSimulation", name: str, dials: tuple[str, ...]) -> None:
        world = mesh.world
        self.name = name
        self.mesh = mesh
        self._dials = dials
        self.oracle = Oracle(world, every=mesh.every)
        self.network = Network(world, MessageFaults())
        self.peers: dict[str, Any] = {}
        disk = FaultyDisk(Random(world.random.random()))
        self.server = SimServer(
            *(world, self.network, MemoryLedger(disk), self._sides, self._deliver),
            *(self.oracle, LIMITS),
        )
        services = (*SERVICES[name], "everywhere")
        self.workers = [self._worker(n, services) for n in range(2)]
        self.client = MeshClient(
            *(world, self.oracle, f"{name}-client", mesh.services, self._sender(f"{name}-client"))
        )
        self.peers[self.client.name] = self.client

    def _sides(self) -> dict[str, object]:
        dials = {other.encode(): TERMS for other in self._dials}
        view = RegistryView(self.name, lambda: self.server.broker.state)
        config = MeshConfig(self.name, dials, others=TERMS)
        return {LINK: PassThroughSide(), NAME: MeshBrokerSide(config, view, self.mesh.new_session)}

    def _worker(self, number: int, services: tuple[str, ...]) -> MeshWorker:
        name = f"{self.name}-w{number}"
        offer = WorkerJoined(
            PeerId(f"{LINK}/{name}"),
            WorkerName(name),
            tuple(map(ServiceName, services)),
            credit=2,
            credit_returns=True,
            beat_every=1.0,
            can_cancel=True,
            dialect=LINK,
        )
        worker = MeshWorker(self.mesh.world, offer, self._sender(name), self.mesh.runs)
        self.peers[name] = worker
        return worker

    def _sender(self, name: str) -> Callable[[Event], None]:
        def send(event: Event) -> None:
            arrive = partial(self.server.arrive, LINK, name)
            self.network.send(name, "broker", arrive, event)

        return send

    def _deliver(self, link: str, address: Any) -> Any:
        if link == NAME:
            return self.mesh.route(self.name, address)
        peer = self.peers.get(address)
        return None if peer is None else (address, peer.receive)


class MeshSimulation:
    """Two or three brokers, their links, and faults of both."""

    def __init__(self, seed: int, *, every: int = 1) -> None:
        self.world = world = World(seed)
        self.every = every
        self.runs: Counter[JobId] = Counter()
        self._sessions = 0
        shape = world.random.choice(SHAPES)
        names = ("a", "b", "c") if world.chance(0.6) else ("a", "b")
        pairs = [pair for pair in shape if set(pair) <= set(names)]
        self.services = (*(s for name in names for s in SERVICES[name]), "everywhere")
        self.connections = [MeshConnection(world, *pair, self._arrive) for pair in pairs]
        self.brokers: dict[str, SimBroker] = {}
        for name in names:
            self.brokers[name] = SimBroker(self, name, tuple(b for a, b in pairs if a == name))
        self._begin()

    def new_session(self) -> str:
        """Return the name of a new session."""
        self._sessions += 1
        return f"session-{self._sessions}"

    def _begin(self) -> None:
        for broker in self.brokers.values():
            for worker in broker.workers:
                self.world.after(self.world.random.random(), worker.start)
            self._sometimes(1.5, broker.client.submit_new)
            self._sometimes(6.0, broker.client.cancel_one)
            self._sometimes(15.0, self._kill, broker)
            self._sometimes(15.0, self._withdraw, broker)
        for connection in self.connections:
            self._sometimes(10.0, self._disturb, connection)

    # --- messages between brokers -------------------------------------------------------------

    def route(self, source: str, address: bytes) -> object:
        """Return where a message of a broker goes; None: there is no connection."""
        to = address.decode()
        found = [c for c in self.connections if {source, to} == set(c.ends) and not c.is_down]
        # A broker that connects has one address for the other, whoever else connects.
        found = [c for c in found if c.ends[0] == source] or found
        if to not in self.brokers or not found or not self.brokers[to].server.is_up:
            return None
        return to, partial(found[0].carry, source)

    def _arrive(self, to: str, address: bytes, frames: object) -> None:
        if to in self.brokers:
            self.brokers[to].server.arrive(NAME, address, frames)

    # --- faults -------------------------------------------------------------------------------

    def _sometimes(self, mean: float, action: Callable[..., None], *args: object) -> None:
        wait = self.world.random.expovariate(1 / mean)
        self.world.after(wait, self._once, mean, action, args)

    def _once(self, mean: float, action: Callable[..., None], args: tuple[object, ...]) -> None:
        if self.world.is_faulty:
            action(*args)
            self._sometimes(mean, action, *args)

    def _kill(self, broker: SimBroker) -> None:
        if broker.server.is_up:
            self.world.fault("broker crash")
            broker.server.crash()
            for connection in self.connections:
                if broker.name in connection.ends:
                    connection.break_off(0.1)
            self.world.after(self.world.random.random() * 8, broker.server.start)

    def _disturb(self, connection: MeshConnection) -> None:
        seconds = self.world.random.choice((0.1, 1.0, 4.0, 12.0))
        if self.world.chance(0.5):
            self.world.fault("link broken")
            connection.break_off(seconds)
        else:
            self.world.fault("link stalled")
            connection.stall(seconds)

    def _withdraw(self, broker: SimBroker) -> None:
        """Let an idle worker leave for a while: its services may vanish from the mesh."""
        idle = [w for w in broker.workers if w.is_up and not w.running]
        if idle and broker.server.is_up:
            self.world.fault("service gone")
            idle[0].leave(0.0)
            self.world.after(self.world.random.random() * 10, idle[0].reconnect)

    # --- running ------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run the world to its end and return its outcome."""
        failure = ""
        try:
            self._run_until(self.world.now + FAULT_SECONDS)
            self.world.is_faulty = False
            self._finish()
        except Exception as error:
            failure = self._describe(error)
        world, servers = self.world, [b.server for b in self.brokers.values()]
        events = sum(server.events for server in servers)
        records = sum(server.ledger.last_seq for server in servers)
        return Outcome(world.seed, world.trace, world.steps, events, records, world.faults, failure)

    def _describe(self, error: Exception) -> str:
        world = self.world
        return (
            f"seed {world.seed}, step {world.steps}, after {world.now - EPOCH:.3f} s: "
            f"{type(error).__name__}: {error}\n\nthe last exchanges:\n{world.diagram()}"
        )

    def _run_until(self, instant: float) -> None:
        while self.world.next_at() <= instant:
            self.world.step()
        self.world.now = max(self.world.now, instant)

    def _finish(self) -> None:
        until = self.world.now + LIVENESS
        while self.world.now < until and not self._is_over():
            self._run_until(self.world.now + 1.0)
            self._check_stopped()
        for broker in self.brokers.values():
            broker.oracle.check_finished(broker.server.broker)
            self._require(not broker.client.open, f"{broker.name}: clients wait")
            broker.oracle.compare(broker.server.broker, broker.server.unwritten())
            self._check_ledger(broker)
        self._check_runs()

    def _is_over(self) -> bool:
        return not any(
            not b.server.is_up or b.client.open or b.server.broker.state.store.open_jobs
            for b in self.brokers.values()
        )

    # --- promises -----------------------------------------------------------------------------

    def _require(self, claim: object, message: str) -> None:
        if not claim:
            raise PromiseBroken(message)

    def _check_stopped(self) -> None:
        """Check that no broker has a job open for long that has ended at its first broker."""
        for broker in self.brokers.values():
            for job in broker.server.broker.state.store.jobs.values():
                ended_at = self._ended_at(job.id) if not job.is_final else 0.0
                over = self.world.now - max(ended_at, EPOCH + FAULT_SECONDS) if ended_at else 0.0
                self._require(over < STOP_WITHIN, f"{job.id} ended, but is open at {broker.name}")

    def _ended_at(self, job: JobId) -> float:
        found = self._first(job).server.broker.state.store.find(job)
        return found.ended_at if found is not None and found.state in FINAL else 0.0

    def _check_ledger(self, broker: SimBroker) -> None:
        """Check that each job came once, by a way without loops, with no more time than is left."""
        seen: set[str] = set()
        for record in broker.server.ledger.read():
            if record.kind != Kind.SUBMITTED:
                continue
            self._require(record.job not in seen, f"{record.job} was submitted twice")
            seen.add(record.job)
            path = (*read_terms(record.terms).path, broker.name)
            self._require(len(path) == len(set(path)), f"{record.job} went in a circle: {path}")
            job = JobId(record.job)
            given = self._first(job).server.broker.state.store.find(job)
            due = given.deadline_at if given is not None else record.deadline_at
            # A broker that was down may pass on a job that is over; it gets no time at all.
            late = record.deadline_at - max(due, record.at)
            # A message may be under way for as long as a link may be silent.
            slack = HOLD * len(path)
            self._require(late <= slack, f"{job} has {late:.1f} s more at {path}")

    def _first(self, job: JobId) -> SimBroker:
        """Return the broker that a job's client submitted it to."""
        return next(b for b in self.brokers.values() if job in b.client.submitted)

    def _check_runs(self) -> None:
        for job, count in self.runs.items():
            retry = self._first(job).client.submitted[job].terms.retry
            allowed = 1 + (retry.times if retry is not None else 0)
            self._require(count <= allowed, f"{job} ran {count} times, not at most {allowed}")


def simulate_mesh(seed: int, *, every: int = 1) -> Outcome:
    """Run one seed of the mesh worlds."""
    return MeshSimulation(seed, every=every).run()
