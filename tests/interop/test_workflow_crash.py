"""A map of many steps survives kills of its worker and of the broker, and repeats no finished step.

The steps write down every run. At the end the runs are compared with the ledger.
`DRAGOMAN_WORKFLOW_STEPS` and `DRAGOMAN_WORKFLOW_KILLS` set the size; `make workflow-crash` runs
100,000 steps with ten kills.
"""

import os
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import DRAGOMAN, Broker, Fleet, Process, until

from dragoman import Client
from dragoman.ledger.reader import LedgerReader
from dragoman.model.record import Kind

pytestmark = pytest.mark.crash

STEPS = int(os.environ.get("DRAGOMAN_WORKFLOW_STEPS", "300"))
KILLS = int(os.environ.get("DRAGOMAN_WORKFLOW_KILLS", "2"))
#: Seconds that one step may take on a loaded machine, on the average.
SLOWEST = 0.02
#: A worker that was killed is lost after ten seconds: on a loaded machine it may be slow to beat.
SETTINGS = """
[nfp]
beat_every = 0.2
missed_allowed = 50
[services.flow]
max_attempts = 100
[ledger]
seal = false
"""
TASKS = """
import os

RUNS = os.open("runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def step(x: int) -> int:
    os.write(RUNS, b"%d\\n" % x)
    return 2 * x


def total(job, n: int) -> int:
    return sum(job.blocking.map("flow", "step", range(n), window=64))
"""


def runs(folder: Path) -> list[bytes]:
    """Return the runs of steps, in order."""
    file = folder / "runs"
    return file.read_bytes().split() if file.exists() else []


def has_run(folder: Path, count: int) -> bool:
    """Tell whether steps have run so many times."""
    return len(runs(folder)) >= count


class Crashing:
    """A broker and a worker; one of them is killed and started again, in turns."""

    def __init__(self, broker: Broker, fleet: Fleet) -> None:
        self.broker, self.fleet = broker, fleet
        (fleet.folder / "tasks.py").write_text(TASKS)
        self.worker = self._worker()

    def _worker(self) -> Process:
        url, names = self.broker.url(), ("--service", "flow", "--concurrency", "8")
        command = (DRAGOMAN, "worker", "tasks", "--url", url, *names)
        return self.fleet.run(*command, name="worker", cwd=self.fleet.folder)

    def kill(self, number: int) -> None:
        if number % 2:
            self.broker.kill()
            self.broker.start()
        else:
            self.worker.kill()
            self.worker = self._worker()


@pytest.mark.timeout(120 + STEPS * SLOWEST * 4 + KILLS * 20)
def test_a_map_survives_kills_of_worker_and_broker(broker: StartBroker, fleet: Fleet) -> None:
    crashing = Crashing(broker(settings=SETTINGS), fleet)
    patience, started = 60 + STEPS * SLOWEST + KILLS * 20, time.monotonic()
    with Client(crashing.broker.url()) as client:
        job = client.options(timeout=patience * 2).submit("flow", "total", n=STEPS)
        for number in range(KILLS):
            done = STEPS * (number + 1) // (KILLS + 1)
            until(partial(has_run, fleet.folder, done), f"{done} runs", patience)
            crashing.kill(number)
        assert job.result(patience) == STEPS * (STEPS - 1)
    crashing.worker.stop()
    crashing.broker.stop()
    figures = _compare(crashing.broker, runs(fleet.folder), job.id)
    sys.stdout.write(f"\n{figures}; {KILLS} kills; {time.monotonic() - started:.0f} s\n")


def _compare(broker: Broker, run: list[bytes], parent: str) -> str:
    """Compare what the steps wrote down with the ledger."""
    children: dict[str, int] = {}
    attempts, successes = Counter[str](), Counter[str]()
    parent_attempts = 0
    for record in LedgerReader(broker.ledger_file).read():
        if record.kind == Kind.SUBMITTED and record.parent:
            assert record.parent == parent
            children[record.job] = record.position
        elif record.kind == Kind.DISPATCHED:
            attempts[record.job] += 1
            parent_attempts += record.job == parent
        elif record.kind == Kind.ENDED and record.state == "succeeded":
            successes[record.job] += 1
    assert sorted(children.values()) == list(range(1, STEPS + 1))
    assert {successes[job] for job in children} == {1}
    # Position n is the step of n - 1. A run without an attempt would be a step repeated.
    ran = Counter(int(x) + 1 for x in run)
    more = {n: ran[n] for job, n in children.items() if not 1 <= ran[n] <= attempts[job]}
    assert not more, f"steps that ran more often than they were dispatched: {more}"
    again = sum(count - 1 for count in ran.values())
    lost = sum(attempts[job] for job in children) - STEPS
    return (
        f"{STEPS} steps, each succeeded once; {again} ran again, {lost} attempts more than steps; "
        f"{parent_attempts} attempts of the parent"
    )
