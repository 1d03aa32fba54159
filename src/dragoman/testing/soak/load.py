"""The load: a client of each dialect that gives work to every worker and keeps its own list."""

import random
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from dragoman.sdk.blocking import Client, Job
from dragoman.sdk.errors import DragomanError

#: Dialects whose jobs are on disk before they are acknowledged: their clients never ask twice.
STRICT: Final = frozenset({"nfp", "http"})
#: How often the others ask again; their texts allow that a broker's death takes jobs with it.
_TRIES: Final = 20
_BREATH: Final = 1.0
#: How long a job may take. A strict one waits until everything is whole again; a relaxed one that
#: a broker took with it is never answered, so it is soon asked for again.
_TIMEOUT: Final = 90.0
_RELAXED_TIMEOUT: Final = 15.0
_SIZES: Final = (10, 200, 4_000, 32_000)


@dataclass
class CallerTally:
    """What one client asked for and got."""

    dialect: str
    asked: int = 0
    answered: int = 0
    wrong: int = 0
    again: int = 0
    lost: list[str] = field(default_factory=list)
    #: The ids of jobs that were answered, for the ledger to confirm.
    jobs: list[str] = field(default_factory=list)
    slowest: float = 0.0


@dataclass
class _PendingCall:
    number: int
    service: str
    value: Any
    job: Job
    began: float
    tries: int = 1


class Caller(threading.Thread):
    """Keeps a few jobs under way until it is told to stop, then waits for the rest."""

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
        """Give work and take answers."""
        waiting: deque[_PendingCall] = deque()
        with Client(self._url, name=f"soak-{self.tally.dialect}") as client:
            while not self._is_over.is_set() or waiting:
                while len(waiting) < self._window and not self._is_over.is_set():
                    waiting.append(self._submit(client))
                    self._is_over.wait(self._pause)
                if waiting:
                    self._take(client, waiting.popleft())

    def calm(self) -> None:
        """Take no new work up."""
        self._is_over.set()

    def end(self, at_most: float) -> bool:
        """Take no new work up; whether all that was under way has ended in time."""
        self.calm()
        self.join(max(0.0, at_most))
        return not self.is_alive()

    def _submit(self, client: Client) -> _PendingCall:
        number = self.tally.asked
        self.tally.asked += 1
        service = self._random.choice(self._services)
        size = self._random.choice(_SIZES)
        value = {"n": number, "who": self.tally.dialect, "pad": "x" * size}
        return self._ask(client, number, service, value)

    def _ask(self, client: Client, number: int, service: str, value: Any) -> _PendingCall:
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
        tally.again += 1
        time.sleep(_BREATH)
        again = self._ask(client, item.number, item.service, item.value)
        again.tries, again.began = item.tries + 1, item.began
        self._take(client, again)
