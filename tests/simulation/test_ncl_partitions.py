"""Seeded chaos over NCL: lost messages, partitions, restarts of both sides.

Runs the fabric of `tests.dialects.ncl_fabric` with random faults, then heals everything. Each job
must have ended exactly once. A node that kept its memory must not have run anything twice.
"""

import random
from collections import Counter

import pytest
from tests.dialects.ncl_fabric import Crossing, Fabric, Node

from dragoman.core.limits import Limits
from dragoman.dialects.ncl.settings import ComputeSettings, OrchestratorSettings
from dragoman.dialects.ncl.store import NodeStore
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.target import ALL, ANY
from dragoman.model.terms import Terms

pytestmark = pytest.mark.sim

NODES = ("n-1", "n-2", "n-3")
STEPS = 150
TERMS = Terms(patience=None, max_attempts=50)


class Chaos:
    """One run of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        settings = OrchestratorSettings(grace=30.0, disconnect_timeout=20.0, ack_wait=5.0)
        self.fabric = Fabric(settings, Limits(recovery_grace=40.0))
        self.lines: dict[str, list[bytes]] = {name: [] for name in NODES}
        self.cut: set[str] = set()
        self.loss = 0.0
        self.submitted: list[str] = []
        #: Tickets per node and memory; each may be assigned once.
        self.given: Counter[tuple[str, int, str]] = Counter()
        self.lives: Counter[str] = Counter()
        self.seen: dict[str, int] = {}
        self.faults: Counter[str] = Counter()
        self.fabric.loses = self.loses
        for name in NODES:
            self.start_node(name)

    def loses(self, crossing: Crossing) -> bool:
        parts = crossing.subject.split(".")
        to = next((n for n in NODES if n in parts), "")
        if crossing.source in self.cut or to in self.cut:
            return True
        # Acks and answers go to inboxes; the faults do not depend on the receiver.
        return self.random.random() < self.loss

    def start_node(self, name: str) -> None:
        lines = self.lines[name]
        store = NodeStore(lines.append)
        store.load(list(lines))
        settings = ComputeSettings(ack_wait=5.0, heartbeat_interval=5.0, retry_max=20.0)
        self.lives[name] += 1
        self.seen[name] = 0
        self.fabric.add(name, slots=3, settings=settings, store=store)

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.35:
            self.submit()
        elif chance < 0.7:
            self.work()
        elif chance < 0.74:
            self.fault("partition", lambda: self.cut.add(self.random.choice(NODES)))
        elif chance < 0.82:
            self.cut.clear()
        elif chance < 0.86:
            self.fault("loss", lambda: setattr(self, "loss", self.random.choice([0.1, 0.3])))
        elif chance < 0.92:
            self.loss = 0.0
        elif chance < 0.95:
            self.fault("broker restart", self.fabric.restart_broker)
        elif chance < 0.97:
            self.fault("node restart", lambda: self.start_node(self.random.choice(NODES)))
        elif chance < 0.98:
            self.fault("node forgets", self.forget)
        elif self.submitted:
            self.fabric.cancel(self.random.choice(self.submitted))
        self.count()
        self.fabric.wait(self.random.choice([0.0, 1.0, 3.0, 12.0]))
        self.count()

    def fault(self, name: str, strike: object) -> None:
        self.faults[name] += 1
        strike()  # type: ignore[operator]

    def forget(self) -> None:
        name = self.random.choice(NODES)
        self.lines[name].clear()
        self.start_node(name)

    def submit(self) -> None:
        job = f"j{len(self.submitted)}"
        self.submitted.append(job)
        target = ALL if self.random.random() < 0.1 else ANY
        self.fabric.submit(job, target=target, terms=TERMS)

    def work(self, everything: bool = False) -> None:
        """Let nodes finish some of their work."""
        for name, node in self.fabric.nodes.items():
            for work in list(node.works)[0 if everything else -6 :]:
                if everything or self.random.random() < 0.5:
                    self.finish(name, node, work)

    def finish(self, name: str, node: Node, work: object) -> None:
        answer = Answer(value=name)
        if self.random.random() < 0.1:
            answer = Answer(fault=Fault(FaultCode.TASK_FAILED, "chance"))
        node.finish(work, answer)  # type: ignore[arg-type]

    def count(self) -> None:
        for name, node in self.fabric.nodes.items():
            for work in node.works[self.seen[name] :]:
                self.given[name, self.lives[name], work.ticket] += 1
            self.seen[name] = len(node.works)

    def heal(self) -> None:
        """End all faults and let everything finish."""
        self.cut.clear()
        self.loss = 0.0
        for _ in range(25):
            self.fabric.wait(10.0)
            self.work(everything=True)
            self.count()
            if not self.unfinished():
                break
        # The last returned nodes are reconciled a little later.
        self.fabric.wait(60.0)

    def unfinished(self) -> list[str]:
        jobs = self.fabric.broker.state.store.jobs
        return [job for job in self.submitted if not jobs[job].is_final]  # type: ignore[index]


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_every_job_ends_once_and_nothing_runs_twice(seed: int) -> None:
    chaos = Chaos(seed)
    for _ in range(STEPS):
        chaos.step()
    chaos.heal()
    assert chaos.unfinished() == [], f"seed {seed}: {dict(chaos.faults)}"
    ends = Counter(r.job for r, _ in chaos.fabric.entries if r.kind == "ended")
    assert all(ends[job] == 1 for job in chaos.submitted), f"seed {seed}"
    twice = {key: n for key, n in chaos.given.items() if n > 1}
    assert twice == {}, f"seed {seed}: given twice to a node that knew better"
    dead = [r.job for r, _ in chaos.fabric.entries if r.state == JobState.DEAD]
    assert dead == [], f"seed {seed}"
    assert chaos.fabric.side.executions.live == {}, f"seed {seed}"


def test_the_chaos_is_chaos() -> None:
    faults: Counter[str] = Counter()
    for seed in range(3):
        chaos = Chaos(seed)
        for _ in range(STEPS):
            chaos.step()
        faults += chaos.faults
    assert set(faults) == {"partition", "loss", "broker restart", "node restart", "node forgets"}
