"""The load: one client per dialect, which uses every worker and keeps its own list."""

import random
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from dragoman.dialects.registry import DIALECTS
from dragoman.sdk.blocking import Client, Job
from dragoman.sdk.errors import DragomanError

#: Dialects whose jobs are durable when acknowledged: their clients never submit twice.
STRICT: Final = frozenset(name for name, each in DIALECTS.items() if each.acknowledges)
#: Tries of the other dialects: their texts allow a crashed broker to lose jobs.
_TRIES: Final = 20
_RETRY_PAUSE: Final = 1.0
#: Time limits of a job. A strict job outlasts every fault. A relaxed job that a crash lost is never
#: answered, so its client submits it again soon.
_TIMEOUT: Final = 90.0
_RELAXED_TIMEOUT: Final = 15.0
_SIZES: Final = (10, 200, 4_000, 32_000)


@dataclass
class CallerTally:
    """What one client requested and received."""

    dialect: str
    asked: int = 0
    answered: int = 0
    wrong: int = 0
    retries: int = 0
    lost: list[str] = field(default_factory=list)
    #: The ids of answered jobs, to check against the ledger.
    jobs: list[str] = field(default_factory=list)
    slowest: float = 0.0


@dataclass
class _PendingCall:
    number: int
    service: str
    value: object
    job: Job
    began: float
    tries: int = 1


class SoakCaller(threading.Thread):
    """Keeps a few jobs open until `end`, then waits for the rest."""

    def __init__(
        self, dialect: str, url: str, services: list[str], seed: int, window: int = 4
    ) -> None:
        super().__init__(name=f"soak {dialect}", daemon=True)
        self.tally = CallerTally(dialect)
        self._url, self._services, self._window = url, services, window
        self._random = random.Random(f"{seed} {dialect}")
        self._is_over = threading.Event()
        self._timeout = _TIMEOUT if dialect in STRICT else _RELAXED_TIMEOUT
        self._pause = 0.05

    def run(self) -> None:
        """Submit jobs and collect answers."""
        waiting: deque[_PendingCall] = deque()
        with Client(self._url, name=f"soak-{self.tally.dialect}") as client:
            while not self._is_over.is_set() or waiting:
                while len(waiting) < self._window and not self._is_over.is_set():
                    waiting.append(self._submit(client))
                    self._is_over.wait(self._pause)
                if waiting:
                    self._take(client, waiting.popleft())

    def stop_submitting(self) -> None:
        """Submit no new jobs."""
        self._is_over.set()

    def end(self, at_most: float) -> bool:
        """Submit no new jobs; return whether all open ones ended in time."""
        self.stop_submitting()
        self.join(max(0.0, at_most))
        return not self.is_alive()

    def _submit(self, client: Client) -> _PendingCall:
        number = self.tally.asked
        self.tally.asked += 1
        service = self._random.choice(self._services)
        size = self._random.choice(_SIZES)
        value = {"n": number, "who": self.tally.dialect, "pad": "x" * size}
        return self._ask(client, number, service, value)

    def _ask(self, client: Client, number: int, service: str, value: object) -> _PendingCall:
        job = client.submit(service, "echo", value, timeout=self._timeout)
        return _PendingCall(number, service, value, job, time.monotonic())

    def _take(self, client: Client, item: _PendingCall) -> None:
        tally = self.tally
        try:
            found = item.job.result(self._timeout + 5)
        except DragomanError as error:
            self._missed(client, item, error)
            return
        tally.answered += 1
        tally.wrong += found != item.value
        tally.jobs.append(item.job.id)
        tally.slowest = max(tally.slowest, time.monotonic() - item.began)

    def _missed(self, client: Client, item: _PendingCall, error: DragomanError) -> None:
        tally = self.tally
        if tally.dialect in STRICT or item.tries >= _TRIES:
            tally.lost.append(f"{tally.dialect} {item.number} to {item.service}: {error}")
            return
        tally.retries += 1
        time.sleep(_RETRY_PAUSE)
        retries = self._ask(client, item.number, item.service, item.value)
        retries.tries, retries.began = item.tries + 1, item.began
        self._take(client, retries)
