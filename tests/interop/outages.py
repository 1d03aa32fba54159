"""Outages of a broker for tests, and the table of what they cost."""

import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tests.interop.harness import Broker

from dragoman import DragomanError, Job

#: Seconds from the start of the jobs to the outage, and of an outage without the broker.
STARTS: Final = 2.0
AWAY: Final = 5.0
#: Seconds after which jobs end that are to end before an outage.
BEFORE: Final = 0.2
IS_WHOLE: Final = "DRAGOMAN_CHAOS" in os.environ
#: A job of the table: its worker, and when it ends.
Key = tuple[str, str]


class Outage(NamedTuple):
    """What is done to a broker, and how long it lasts."""

    strike: Callable[[Broker], None]
    seconds: float = AWAY

    def durations(self) -> dict[str, float]:
        """Return how long jobs run that end before, during and after this outage."""
        return {"before": BEFORE, "during": STARTS + 2.0, "after": STARTS + self.seconds + 8.0}


def kill(broker: Broker) -> None:
    """Kill the broker; start it again after a while."""
    broker.kill()
    time.sleep(AWAY)
    broker.start()


def terminate(broker: Broker) -> None:
    """Stop at once: a second SIGTERM ends the drain."""
    broker.signal(signal.SIGTERM)
    broker.until_it_says("drain")
    broker.signal(signal.SIGTERM)
    broker.wait()
    time.sleep(AWAY)
    broker.start()


def pause(seconds: float) -> Outage:
    """Let the broker stand still."""

    def stand_still(broker: Broker) -> None:
        broker.freeze()
        time.sleep(seconds)
        broker.thaw()

    return Outage(stand_still, seconds)


OUTAGES: Final = {
    "kill": Outage(kill),
    "terminate": Outage(terminate),
    "pause of 5 s": pause(5.0),
    "pause of 16 s": pause(16.0),
    "pause of 60 s": pause(60.0),
}
SLICE: Final = ("kill", "pause of 5 s")


def has_ended(job: Job) -> bool:
    """Wait for the end of a job; tell whether it succeeded in time."""
    try:
        job.result(timeout=120)
    except DragomanError:
        return False
    return True


class OutageTable:
    """Jobs that ended, ran twice, were lost; by outage and worker."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], tuple[int, int, int]] = {}

    def note(self, outage: str, jobs: Iterable[Key], ended: set[Key], twice: set[Key]) -> None:
        """Add an outage."""
        for worker in dict.fromkeys(worker for worker, _ in jobs):
            mine = {key for key in jobs if key[0] == worker}
            self._rows[outage, worker] = len(mine & ended), len(mine & twice), len(mine - ended)

    def show(self) -> None:
        """Print the table, if there is one."""
        if not self._rows:
            return
        lines = [f"{'fault':16}{'worker':9}{'ended':>6}{'twice':>7}{'lost':>6}"]
        for (outage, worker), (ended, twice, lost) in self._rows.items():
            lines.append(f"{outage:16}{worker:9}{ended:6}{twice:7}{lost:6}")
        print("\n" + "\n".join(lines))
