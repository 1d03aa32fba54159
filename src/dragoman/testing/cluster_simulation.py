"""Worlds of three nodes on one stream: partitions, pauses, crashes, clock jumps, lost majorities.

Clients submit and cancel jobs at the node that serves, and ask again until they are answered.
After the faults one node must lead, all clients must be answered, and all copies must be equal.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from dragoman.core.effects import Effect, SendReply
from dragoman.core.events import JobCancelled, JobSubmitted, ReplyKind
from dragoman.ledger.base import LedgerUnavailable
from dragoman.ledger.memory_stream import MemoryStream, StreamConnection, StreamFaults
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.terms import Terms
from dragoman.testing.cluster_nodes import TTL, ClusterSimNode
from dragoman.testing.cluster_oracle import ClusterOracle
from dragoman.testing.memory_bucket import BucketConnection, MemoryBucket
from dragoman.testing.simulation import Outcome
from dragoman.testing.workload import LINK
from dragoman.testing.world import EPOCH, World

NODES: Final = ("a", "b", "c")
FAULT_SECONDS: Final = 40.0
LIVENESS: Final = 60.0
_LATENCY: Final = 0.001
_ASK_AGAIN: Final = 2.0
_SUBMIT: Final = 0.4  #: mean seconds between two jobs
_FAIL: Final = 3.0  #: mean seconds between two faults
PAUSES: Final = (1.0, 3.0, 12.0)
CLOCK_ERRORS: Final = (-86_400.0, -30.0, 0.0, 30.0)


class ClusterClients:
    """All clients of one world: they ask until they are answered."""

    def __init__(self, world: World, oracle: ClusterOracle) -> None:
        self.world = world
        self.oracle = oracle
        self.servers: Callable[[], list[ClusterSimNode]] = list
        self._count = 0
        #: Unanswered submissions.
        self.open: dict[str, JobSubmitted] = {}
        #: Jobs whose end no client knows yet.
        self._running: dict[str, JobSubmitted] = {}

    def __call__(self, link: str, address: object) -> tuple[str, Callable[[Any], None]]:
        """Find the receiver of a message; all clients live here."""
        return str(address), self.receive

    def submit(self) -> None:
        """Submit a new job."""
        self._count += 1
        job, random = f"j{self._count}", self.world.random
        terms = Terms(patience=None, strict=random.random() < 0.7)
        client = PeerId(f"{LINK}/c{random.randrange(3)}")
        body = Body(LINK, (job.encode(), bytes(random.choice((0, 100, 150_000)))))
        event = JobSubmitted(JobId(job), client, ServiceName("s"), body, terms=terms)
        self.open[job] = event
        self._ask(event)
        self._running[job] = event
        self.world.after(random.random() * 3, self._cancel, event)

    def _ask(self, event: JobSubmitted) -> None:
        if event.job in self.open:
            self._send(event)
            self.world.after(_ASK_AGAIN, self._ask, event)

    def _cancel(self, event: JobSubmitted) -> None:
        """Cancel a job, again and again until its end is known: so all jobs end."""
        if event.job in self._running:
            self._send(JobCancelled(event.job, event.client))
            self.world.after(_ASK_AGAIN, self._cancel, event)

    def _send(self, event: JobSubmitted | JobCancelled) -> None:
        """Send to a node that serves; it may no longer when the message arrives."""
        if serving := self.servers():
            node, address = self.world.random.choice(serving), event.client.partition("/")[2]
            self.world.after(_LATENCY, node.arrive, address, event)

    def receive(self, reply: Effect) -> None:
        """Take a reply."""
        self.oracle.received(reply)
        if isinstance(reply, SendReply) and reply.kind in (
            *(ReplyKind.QUEUED, ReplyKind.DISPATCHED, ReplyKind.FINAL),
        ):
            self.open.pop(reply.job, None)
        if isinstance(reply, SendReply) and reply.kind is ReplyKind.FINAL:
            self._running.pop(reply.job, None)


class ClusterSimulation:
    """Three nodes, their servers and their clients."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.world = world = World(seed)
        self.stream = MemoryStream(remembers=world.random.choice((0, 5, 10_000)))
        self.bucket = MemoryBucket(TTL, lambda: world.now)
        self.oracle = ClusterOracle(self.stream)
        self.clients = ClusterClients(world, self.oracle)
        self._running = asyncio.new_event_loop()
        self.nodes = [self._node(name, folder) for name in NODES]
        self.clients.servers = lambda: [n for n in self.nodes if n.is_up and n.is_leader]
        self._sometimes(_SUBMIT, self.clients.submit)
        self._sometimes(_FAIL, self._fail)
        self._sometimes(1.0, self.stream.deliver_late)
        self._sometimes(4.0, self._maintain)

    def _node(self, name: str, folder: Path) -> ClusterSimNode:
        world = self.world
        chances = {
            fault: world.random.choice((0.0, 0.02, 0.1))
            for fault in ("lost_request", "lost_answer", "late", "stale", "repeated")
        }
        faults = StreamFaults(Random(f"{world.seed}{name}"), **chances)
        bucket = BucketConnection(self.bucket, lambda: world.is_faulty and world.chance(0.02))
        node = ClusterSimNode(
            world,
            name,
            folder,
            StreamConnection(self.stream, faults),
            bucket,
            self.oracle,
            self._running,
            self.clients,
        )
        node.successor = self._newer_than
        return node

    def _newer_than(self, epoch: int) -> str:
        """Return the node that serves with a newer epoch, if there is one."""
        serving = [n for n in self.nodes if n.is_up and n.is_leader and n.ledger.epoch > epoch]
        return serving[0].name if serving else ""

    def _sometimes(self, mean: float, action: Callable[[], None]) -> None:
        self.world.after(self.world.random.expovariate(1 / mean), self._once, mean, action)

    def _once(self, mean: float, action: Callable[[], None]) -> None:
        if self.world.is_faulty:
            action()
            self._sometimes(mean, action)

    # --- faults ---------------------------------------------------------------------------------

    def _fail(self) -> None:
        faults = (self._crash, self._pause, self._cut, self._hand_over, self._jump, self._no_quorum)
        leaders = [node for node in self.nodes if node.is_leader]
        node = self.world.random.choice([*self.nodes, *leaders, *leaders])
        self.world.random.choice(faults)(node)

    def _crash(self, node: ClusterSimNode) -> None:
        self.world.fault("crash")
        node.crash()
        self.world.after(self.world.random.random() * 4, node.start)

    def _pause(self, node: ClusterSimNode) -> None:
        self.world.fault("pause")
        node.stand_still(self.world.random.choice(PAUSES))

    def _cut(self, node: ClusterSimNode) -> None:
        """Cut a node off from the servers; its clients still reach it."""
        self.world.fault("partition")
        node.stream.is_cut = node.bucket.is_cut = True
        self.world.after(self.world.random.random() * 8, self._join, node)

    def _join(self, node: ClusterSimNode) -> None:
        node.stream.is_cut = node.bucket.is_cut = False

    def _hand_over(self, node: ClusterSimNode) -> None:
        if node.is_leader:
            self.world.fault("hand-over")
            node.hand_over()

    def _jump(self, node: ClusterSimNode) -> None:
        self.world.fault("clock jump")
        node.wall_error = self.world.random.choice(CLOCK_ERRORS)

    def _no_quorum(self, _: ClusterSimNode) -> None:
        self.world.fault("no quorum")
        self.stream.servers = 1
        self.world.after(self.world.random.random() * 4, self._quorum)

    def _quorum(self) -> None:
        self.stream.servers = 3

    def _maintain(self) -> None:
        for node in self.nodes:
            node.maintain()

    # --- running --------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run the world to its end and return its outcome."""
        failure, world = "", self.world
        try:
            self._run_until(world.now + FAULT_SECONDS)
            self._heal()
            self._finish()
        except Exception as error:
            failure = self._describe(error)
        for node in self.nodes:
            node.close()
        self._running.close()
        records = len(self.oracle.records)
        faults = world.faults + Counter(
            {"stream": sum(node.stream.faults.count for node in self.nodes)}
        )
        return Outcome(world.seed, world.trace, world.steps, records, records, faults, failure)

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

    def _heal(self) -> None:
        self.world.is_faulty = False
        self.stream.deliver_late()
        self._quorum()
        for node in self.nodes:
            self._join(node)
            node.stream.faults.stop()
            node.stand_still(0.0)
            node.start()

    def _finish(self) -> None:
        until = self.world.now + LIVENESS
        while self.world.now < until and not self._is_over():
            self._run_until(self.world.now + 0.5)
        self.oracle.require(not self.clients.open, f"clients wait for {list(self.clients.open)}")
        leaders = [node.name for node in self.nodes if node.is_leader]
        self.oracle.require(len(leaders) == 1, f"these nodes lead: {leaders}")
        self.oracle.check_finished([node.ledger for node in self.nodes])

    def _is_over(self) -> bool:
        leaders = [node for node in self.nodes if node.is_leader]
        if self.clients.open or len(leaders) != 1 or leaders[0].engine is None:
            return False
        try:
            is_equal = all(node.ledger.is_caught_up() for node in self.nodes)
        except LedgerUnavailable:
            return False
        return is_equal and not leaders[0].engine.has_unwritten


def simulate_cluster(seed: int) -> Outcome:
    """Run one seed of the cluster worlds."""
    with TemporaryDirectory(prefix="dragoman-cluster-") as folder:
        return ClusterSimulation(seed, Path(folder)).run()
