"""The limits of the settings on a real broker: declared at its start, changed at the next."""

from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Lock
from typing import Any

from dragoman import Client, Worker
from dragoman.testing.harness import LocalBroker

MANAGEMENT = "mmi.service.broker"


class Crowd:
    """A worker that counts how many of its tasks run at a time."""

    def __init__(self, broker: LocalBroker) -> None:
        self.worker = Worker(broker.url("nfp"), "a", concurrency=4, own_process_beats=False)
        self.worker.task(self.meet)
        self.lock, self.now, self.most = Lock(), 0, 0

    def meet(self, _: int, parties: int) -> int:
        """Wait until so many tasks run, or for a moment."""
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            barrier = self.barrier = getattr(self, "barrier", None) or Barrier(parties)
        with suppress(BrokenBarrierError):
            barrier.wait(0.2)
        with self.lock:
            self.now -= 1
        return self.most


def run(data: Path, jobs: int, parties: int, **services: Any) -> int:
    with LocalBroker("nfp", data=data, services=services) as broker:
        crowd = Crowd(broker)
        with crowd.worker, Client(broker.url("nfp")) as client:
            calls = [(n, parties) for n in range(jobs)]
            for job in client.options(timeout=30).submit_many("a", "meet", calls):
                job.result(30)
    return crowd.most


def test_a_limit_of_the_settings_holds_until_they_change(tmp_path: Path) -> None:
    assert run(tmp_path, 4, 3, a={"concurrency": 2}) == 2
    assert run(tmp_path, 2, 2, a={"tasks": {"meet": {"concurrency": 1}}}) == 1
    assert run(tmp_path, 4, 4) == 4
