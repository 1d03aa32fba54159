"""The records of the jobs of a synthetic ledger, as numeric columns.

All jobs of one course (plain, failed, cancelled, ...) are drawn at once. Records of one job are at
least a microsecond apart, so sorting by time keeps their order.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from dragoman.pipeline.synth_world import (
    FAULT,
    FLAP_APART_US,
    FLAP_EVERY_US,
    FLAP_FOR_US,
    KIND,
    SERVICES,
    STATE,
    SynthWorld,
)

Ints = npt.NDArray[np.int64]
#: Columns of numbers, all of one length.
Batch = dict[str, Ints]

COLUMNS: Final = (
    "at",
    "kind",
    "job",
    "part",
    "attempt",
    "service",
    "client",
    "worker",
    "dialect",
    "target",
    "state",
    "fault",
    "detail",
    "nbytes",
    "priority",
    "submitted_at",
    "deadline_at",
    "count",
    "flag",
)
CHUNK_JOBS: Final = 60_000
DAY_US: Final = 86_400_000_000
#: Time to the deadline of jobs that have one; no job takes longer.
DEADLINE_US: Final = 900_000_000
LONGEST_RUN_US: Final = 300_000_000

#: The courses of jobs, in jobs of a thousand; `_<course>` draws their records.
COURSES: Final = {
    "plain": 640,
    "accepted": 180,
    "reporting": 40,
    "several": 50,
    "failed": 35,
    "handed_back": 15,
    "forwarded": 10,
    "cancelled": 10,
    "expired": 8,
    "refused": 10,
    "dead": 2,
}


def concatenate(batches: list[Batch]) -> Batch:
    """Concatenate batches."""
    return {name: np.concatenate([b[name] for b in batches]) for name in COLUMNS}


def select(batch: Batch, chosen: npt.NDArray[np.bool_] | Ints) -> Batch:
    """Return the chosen rows of a batch."""
    return {name: column[chosen] for name, column in batch.items()}


class JobChunks:
    """Draws chunk after chunk of jobs, each as one batch of records in no order."""

    def __init__(self, world: SynthWorld, seed: int, start_us: int, jobs_per_second: float) -> None:
        self.world = world
        self.random = np.random.default_rng(seed)
        self.start = start_us
        self.per_second = jobs_per_second
        self.number = 0
        self.clock = 0.0
        teams = world.teams[1:-1]
        self._first = np.array([0, *[first for first, _ in teams]], np.int64)
        self._size = np.array([1, *[size for _, size in teams]], np.int64)
        self._median = np.array([0, *[median for _, _, _, median, _ in SERVICES]], np.float64)
        share = np.array([share for *_, share in SERVICES], np.float64)
        self._share = share / share.sum()
        weight = 1.0 / np.arange(1, len(world.clients))
        self._weight = weight / weight.sum()
        dialects = np.array(world.client_dialects, np.int64)
        self._client_dialect = dialects
        self._worker_dialect = np.array(world.worker_dialects, np.int64)
        self._is_flaky = np.zeros(len(world.workers), bool)
        self._is_flaky[world.flaky] = True

    def __iter__(self) -> Iterator[tuple[Batch, int]]:
        """Yield batches, each with an instant before which later batches have no record."""
        while True:
            yield self._chunk()

    def _chunk(self) -> tuple[Batch, int]:
        n = CHUNK_JOBS
        jobs = self._submissions(n)
        course = self.random.choice(len(COURSES), n, p=np.array([*COURSES.values()]) / 1000)
        found = [
            getattr(self, f"_{name}")(select(jobs, course == code))
            for code, name in enumerate(COURSES)
        ]
        return concatenate(found), int(jobs["at"][-1])

    # --- the records that courses consist of --------------------------------------------------

    def _submissions(self, n: int) -> Batch:
        """Draw jobs in order of time, more by day than by night."""
        steady = self.clock + np.cumsum(self.random.exponential(1 / self.per_second, n)) * 1e6
        self.clock = float(steady[-1])
        warped = steady + 0.6 * DAY_US / (2 * np.pi) * np.sin(2 * np.pi * steady / DAY_US)
        # One microsecond per job: no two jobs are submitted at the same instant.
        at = self.start + warped.astype(np.int64) + self.number + np.arange(n)
        service = self.random.choice(len(SERVICES), n, p=self._share) + 1
        client = self.random.choice(len(self._weight), n, p=self._weight) + 1
        batch = {name: np.zeros(n, np.int64) for name in COLUMNS}
        batch |= {
            "at": at,
            "kind": np.full(n, KIND["submitted"]),
            "job": np.arange(self.number + 1, self.number + n + 1),
            "service": service,
            "client": client,
            "dialect": self._client_dialect[client],
            "target": np.ones(n, np.int64),
            "state": np.full(n, STATE["queued"]),
            "nbytes": self.random.lognormal(6, 1.5, n).astype(np.int64),
            "priority": self.random.integers(0, 3, n),
            "submitted_at": at,
            "deadline_at": np.where(self.random.random(n) < 0.7, at + DEADLINE_US, 0),
        }
        self.number += n
        return batch

    def _then(self, before: Batch, kind: str, after_us: Ints | int, **columns: object) -> Batch:
        """Return the next record of each job, `after_us` after the one before."""
        n = len(before["at"])
        blank = {"state": 0, "fault": 0, "detail": 0, "nbytes": 0, "count": 0, "target": 0}
        batch = dict(before) | {k: np.full(n, v, np.int64) for k, v in blank.items()}
        batch["at"] = before["at"] + np.maximum(1, after_us)
        batch["kind"] = np.full(n, KIND[kind])
        for name, value in columns.items():
            batch[name] = np.broadcast_to(np.asarray(value, np.int64), (n,)).copy()
        return batch

    def _queue_us(self, n: int) -> Ints:
        """Draw times in the queue: short, with a long but bounded tail."""
        longest = min(20e6, 400 / self.per_second * 1e6)
        return np.minimum(self.random.lognormal(9.6, 1.3, n), longest).astype(np.int64)

    def _run_us(self, service: Ints) -> Ints:
        drawn = self._median[service] * self.random.lognormal(0, 0.7, len(service))
        return np.minimum(drawn, LONGEST_RUN_US).astype(np.int64) + 1_000

    def _steady_worker(self, service: Ints) -> Ints:
        """Choose among the workers that never leave: all but the first of a service."""
        others = self._size[service] - 1
        return self._first[service] + 1 + self.random.integers(0, others)

    def _worker(self, service: Ints, at: Ints) -> Ints:
        """Choose any worker that is connected at an instant."""
        chosen = self._first[service] + self.random.integers(0, self._size[service])
        is_away = self._is_flaky[chosen] & (self._until_leave(at, chosen) <= 0)
        return np.where(is_away, self._steady_worker(service), chosen)

    def _until_leave(self, at: Ints, worker: Ints) -> Ints:
        """Return the time until flaky workers leave; 0 or less while they are away."""
        phase = (at - self.start + worker * FLAP_APART_US) % FLAP_EVERY_US
        return FLAP_EVERY_US - FLAP_FOR_US - phase

    def _dispatch(self, before: Batch, attempt: int = 1, *, steady: bool = False) -> Batch:
        wait = self._queue_us(len(before["at"]))
        service = before["service"]
        at = before["at"] + np.maximum(1, wait)
        worker = self._steady_worker(service) if steady else self._worker(service, at)
        return self._then(
            before,
            "dispatched",
            wait,
            attempt=attempt,
            worker=worker,
            dialect=self._worker_dialect[worker],
            state=STATE["running"],
        )

    def _end(self, before: Batch, run_us: Ints | int, state: str, fault: str = "") -> Batch:
        n = len(before["at"])
        size = self.random.lognormal(7, 1.5, n).astype(np.int64) if state == "succeeded" else 0
        ends = {"state": STATE[state], "fault": FAULT[fault], "nbytes": size}
        return self._then(before, "ended", run_us, **ends)

    def _run(self, jobs: Batch, dispatched: Batch, between: list[Batch], state: str) -> Batch:
        """Run jobs to their end; jobs that lose their worker run on another."""
        last = between[-1] if between else dispatched
        fault = "task_failed" if state == "failed" else ""
        ended = self._end(last, self._run_us(jobs["service"]), state, fault)
        gone = dispatched["at"] + self._until_leave(dispatched["at"], dispatched["worker"])
        lost = self._is_flaky[dispatched["worker"]] & (ended["at"] >= gone)
        done = [select(batch, ~lost) for batch in (*between, ended)]
        kept = [select(batch, lost & (batch["at"] < gone)) for batch in between]
        return concatenate(
            [jobs, dispatched, *done, *kept, *self._rerun(select(dispatched, lost), gone[lost])]
        )

    def _rerun(self, dispatched: Batch, gone: Ints) -> list[Batch]:
        """Requeue jobs of workers that left and run them on others; some results come late."""
        wait = gone - dispatched["at"] + 500
        requeued = self._then(
            dispatched, "requeued", wait, state=STATE["queued"], fault=FAULT["worker_lost"]
        )
        second = self._dispatch(requeued, 2, steady=True)
        ended = self._end(second, self._run_us(second["service"]), "succeeded")
        late = self._then(dispatched, "late", wait + FLAP_FOR_US + 5_000_000, nbytes=64)
        is_late = self.random.random(len(gone)) < 0.3
        return [requeued, second, ended, select(late, is_late)]

    # --- the courses --------------------------------------------------------------------------

    def _plain(self, jobs: Batch) -> Batch:
        return self._run(jobs, self._dispatch(jobs), [], "succeeded")

    def _failed(self, jobs: Batch) -> Batch:
        return self._run(jobs, self._dispatch(jobs), [], "failed")

    def _accepted(self, jobs: Batch) -> Batch:
        dispatched = self._dispatch(jobs)
        taken = self._then(
            dispatched, "accepted", self.random.integers(200, 5_000, len(jobs["at"]))
        )
        return self._run(jobs, dispatched, [taken], "succeeded")

    def _reporting(self, jobs: Batch) -> Batch:
        dispatched = self._dispatch(jobs, steady=True)
        reports, last = [], dispatched
        for _ in range(3):
            pause = self._run_us(jobs["service"]) // 4
            last = self._then(last, "progress", pause, nbytes=120)
            reports.append(last)
        return self._run(jobs, dispatched, reports, "succeeded")

    def _several(self, jobs: Batch) -> Batch:
        """Jobs for two named workers: each part is gathered, then the job ends."""
        jobs = dict(jobs)
        service = jobs["service"]
        first = self._first[service] + 1
        last = self._first[service] + self._size[service] - 1
        names = [self._pair(int(a), int(b)) for a, b in zip(first, last, strict=True)]
        jobs["target"] = np.array([target for target, _ in names], np.int64)
        bound = self._then(jobs, "bound", 50, detail=[detail for _, detail in names])
        found, ends = [jobs, bound], []
        for part, worker in enumerate((first, last)):
            dispatched = self._dispatch(bound, steady=True)
            dispatched |= {
                "part": np.full(len(service), part),
                "worker": worker,
                "dialect": self._worker_dialect[worker],
            }
            gathered = self._end(dispatched, self._run_us(service), "succeeded")
            gathered["kind"] = np.full(len(service), KIND["gathered"])
            found += [dispatched, gathered]
            ends.append(gathered["at"])
        over = np.maximum(*ends) - bound["at"] + 1
        no_worker = {"part": 0, "attempt": 0, "worker": 0, "dialect": 0}
        found.append(self._then(bound, "ended", over, state=STATE["succeeded"], **no_worker))
        return concatenate(found)

    def _pair(self, first: int, last: int) -> tuple[int, int]:
        names = (self.world.workers[first], self.world.workers[last])
        return self.world.target(",".join(names)), self.world.detail("\n".join(names))

    def _handed_back(self, jobs: Batch) -> Batch:
        dispatched = self._dispatch(jobs, steady=True)
        back = {"state": STATE["queued"], "fault": FAULT["handed_back"]}
        requeued = self._then(dispatched, "requeued", 2_000, **back)
        second = self._dispatch(requeued, 2, steady=True)
        ended = self._end(second, self._run_us(jobs["service"]), "succeeded")
        return concatenate([jobs, dispatched, requeued, second, ended])

    def _forwarded(self, jobs: Batch) -> Batch:
        """Jobs that a worker forwards to the next service of the list."""
        dispatched = self._dispatch(jobs, steady=True)
        onward = jobs["service"] % len(SERVICES) + 1
        passed = self._then(
            dispatched, "forwarded", 20_000, service=onward, state=STATE["queued"], nbytes=200
        )
        second = self._dispatch(passed, 2, steady=True)
        ended = self._end(second, self._run_us(onward), "succeeded")
        return concatenate([jobs, dispatched, passed, second, ended])

    def _cancelled(self, jobs: Batch) -> Batch:
        asked = self._then(jobs, "cancel_asked", self._queue_us(len(jobs["at"])))
        return concatenate([jobs, asked, self._end(asked, 10, "cancelled", "cancelled")])

    def _expired(self, jobs: Batch) -> Batch:
        ended = self._end(jobs, self._queue_us(len(jobs["at"])), "expired", "queue_timeout")
        return concatenate([jobs, ended])

    def _refused(self, jobs: Batch) -> Batch:
        """Refused submissions: they have no other record."""
        n = len(jobs["at"])
        fault = self.random.choice([FAULT["queue_full"], FAULT["denied"], FAULT["no_worker"]], n)
        columns = {"kind": np.full(n, KIND["refused"]), "state": np.zeros(n, np.int64)}
        return dict(jobs) | columns | {"fault": fault.astype(np.int64)}

    def _dead(self, jobs: Batch) -> Batch:
        """Jobs whose three dispatches are all undelivered."""
        found, last = [jobs], jobs
        back = {"state": STATE["queued"], "fault": FAULT["undelivered"]}
        for attempt in (1, 2, 3):
            last = self._dispatch(last, attempt, steady=True)
            found.append(last)
            if attempt < 3:
                last = self._then(last, "requeued", 3_000, **back)
                found.append(last)
        return concatenate([*found, self._end(last, 3_000, "dead", "exhausted")])
