"""The worker sessions of a synthetic ledger: joins, leaves and owned resources."""

from typing import Final

import numpy as np

from dragoman.pipeline.synth_jobs import COLUMNS, Batch
from dragoman.pipeline.synth_world import (
    FAULT,
    FLAP_APART_US,
    FLAP_EVERY_US,
    FLAP_FOR_US,
    KIND,
    SynthWorld,
)

#: The workers of this service own devices.
OWNING: Final = "device.config"
DEVICES_EACH: Final = 4
BEAT_US: Final = 2_500_000


class WorkerSessions:
    """Makes the records of sessions, one interval of time after the other."""

    def __init__(self, world: SynthWorld, start_us: int) -> None:
        self.world = world
        self.start = start_us

    def beginning(self) -> Batch:
        """Return the start of the broker and the join of every worker."""
        rows = [{"at": self.start - 1_000_000, "kind": KIND["started"]}]
        at = self.start - 900_000
        for worker in range(1, len(self.world.workers)):
            rows += self._joined(worker, at + worker * 10)
        return to_batch(rows)

    def between(self, first_us: int, last_us: int) -> Batch:
        """Return the leaves and joins in `first_us <= at < last_us`."""
        rows: list[dict[str, int]] = []
        for worker in self.world.flaky:
            period = self.start - worker * FLAP_APART_US
            number = (first_us - period) // FLAP_EVERY_US
            while (begun := period + number * FLAP_EVERY_US) < last_us:
                back_at = begun
                gone_at = begun + FLAP_EVERY_US - FLAP_FOR_US
                if first_us <= back_at < last_us and back_at > self.start:
                    rows += self._joined(worker, back_at)
                if first_us <= gone_at < last_us:
                    rows.append(self._left(worker, gone_at))
                number += 1
        return to_batch(rows)

    def _joined(self, worker: int, at: int) -> list[dict[str, int]]:
        service = self.world.worker_services[worker]
        row = self._row(worker, at, "joined")
        row["detail"] = self.world.detail(self.world.services[service])
        if self.world.services[service] != OWNING:
            return [row]
        devices = range(worker * DEVICES_EACH, (worker + 1) * DEVICES_EACH)
        owns = self._row(worker, at + 1, "owns")
        owns["detail"] = self.world.detail("\n".join(f"device-{n}" for n in devices))
        return [row, owns]

    def _left(self, worker: int, at: int) -> dict[str, int]:
        connected = FLAP_EVERY_US - FLAP_FOR_US
        row = self._row(worker, at, "left")
        reason = {"fault": FAULT["worker_lost"], "detail": self.world.detail("no beat for 15 s")}
        return row | reason | {"count": connected // BEAT_US}

    def _row(self, worker: int, at: int, kind: str) -> dict[str, int]:
        dialect = self.world.worker_dialects[worker]
        service = self.world.worker_services[worker]
        row = {"at": at, "kind": KIND[kind], "worker": worker}
        return row | {"dialect": dialect, "service": service}


def to_batch(rows: list[dict[str, int]]) -> Batch:
    """Make columns of rows; missing values are 0."""
    return {name: np.array([row.get(name, 0) for row in rows], np.int64) for name in COLUMNS}
