"""Planted faults: short histories, each of which breaks exactly one audit rule.

They use a service and workers of their own, so they change nothing else in the ledger.
"""

from collections.abc import Callable, Sequence
from typing import Final

from dragoman.pipeline.fairness import MOST_TURNS
from dragoman.pipeline.synth_jobs import Batch
from dragoman.pipeline.synth_sessions import to_batch
from dragoman.pipeline.synth_world import DIALECT, FAULT, KIND, PROBE, STATE, SynthWorld

#: Values of `flag`: the record is omitted, or written twice.
DROPPED: Final = 1
TWICE: Final = 2

Row = dict[str, int]
SECOND: Final = 1_000_000


class PlantedHistory:
    """Writes the records of one planted fault, a millisecond apart."""

    def __init__(self, world: SynthWorld, at_us: int, job: int) -> None:
        self.at = at_us
        self.job = job
        self.service = world.services.index(PROBE)
        first, _ = world.teams[self.service]
        self.a, self.b, self.c = first, first + 1, first + 2
        #: One client waits, the other floods.
        self.quiet, self.loud = 1, 2
        self.rows: list[Row] = []

    def submit(self, client: int = 1, deadline_us: int = 900 * SECOND) -> Row:
        """Submit a new job; the following records are about it."""
        self.job += 1
        self.at += 1_000
        about = {"job": self.job, "service": self.service, "client": client}
        times = {"submitted_at": self.at, "deadline_at": self.at + deadline_us}
        self.about = about | times
        return self.add(
            "submitted", state=STATE["queued"], target=1, nbytes=10, dialect=DIALECT["nfp"]
        )

    def add(self, kind: str, **columns: int) -> Row:
        """Add a record about the current job."""
        self.at += 1_000
        row = self.about | {"at": self.at, "kind": KIND[kind]} | columns
        if kind == "submitted":
            row["at"] = row["submitted_at"]
        self.rows.append(row)
        return row

    def dispatch(self, worker: int, attempt: int = 1) -> Row:
        """Dispatch the job to a worker."""
        running = {"state": STATE["running"], "dialect": DIALECT["nfp"]}
        return self.add("dispatched", worker=worker, attempt=attempt, **running)

    def requeue(self, worker: int, attempt: int, fault: str) -> Row:
        """Requeue the job."""
        return self.add(
            "requeued", worker=worker, attempt=attempt, state=STATE["queued"], fault=FAULT[fault]
        )

    def end(self, worker: int, attempt: int = 1) -> Row:
        """End the job with success."""
        return self.add("ended", worker=worker, attempt=attempt, state=STATE["succeeded"], nbytes=5)


def _sequence_gap(history: PlantedHistory) -> None:
    history.submit()
    history.dispatch(history.a)
    history.add("progress", worker=history.a, attempt=1)["flag"] = DROPPED
    history.end(history.a)


def _sequence_repeat(history: PlantedHistory) -> None:
    history.submit()
    history.dispatch(history.a)
    history.add("progress", worker=history.a, attempt=1)["flag"] = TWICE
    history.end(history.a)


def _no_final_state(history: PlantedHistory) -> None:
    history.submit(deadline_us=SECOND)
    history.dispatch(history.a)


def _two_final_states(history: PlantedHistory) -> None:
    history.submit()
    history.dispatch(history.a)
    history.end(history.a)
    history.end(history.a)


def _changed_after_end(history: PlantedHistory) -> None:
    history.submit()
    history.dispatch(history.a)
    history.end(history.a)
    history.dispatch(history.b, 2)


def _stale_result_applied(history: PlantedHistory) -> None:
    history.submit()
    history.dispatch(history.a)
    history.requeue(history.a, 1, "handed_back")
    history.dispatch(history.b, 2)
    history.end(history.a, 1)


def _result_without_dispatch(history: PlantedHistory) -> None:
    history.submit()
    history.end(history.a)


def _lost_worker_dispatch(history: PlantedHistory) -> None:
    history.submit()
    row = history.add("left", worker=history.c, dialect=DIALECT["nfp"])
    for name in ("job", "client", "submitted_at", "deadline_at"):
        del row[name]
    history.dispatch(history.c)
    history.requeue(history.c, 1, "undelivered")
    history.dispatch(history.a, 2)
    history.end(history.a, 2)


def _lease_broken(history: PlantedHistory) -> None:
    history.submit()
    history.dispatch(history.a)
    history.requeue(history.a, 1, "worker_lost")
    history.dispatch(history.b, 2)
    history.end(history.b, 2)


def _unfair_wait(history: PlantedHistory) -> None:
    history.submit(history.quiet)
    waiting = history.about
    for _ in range(MOST_TURNS + 1):
        history.submit(history.loud)
        history.dispatch(history.b)
        history.end(history.b)
    history.about = waiting
    history.dispatch(history.a)
    history.end(history.a)


#: By the audit rule that it breaks.
PLANTS: Final[dict[str, Callable[[PlantedHistory], None]]] = {
    "sequence_gap": _sequence_gap,
    "sequence_repeat": _sequence_repeat,
    "no_final_state": _no_final_state,
    "two_final_states": _two_final_states,
    "changed_after_end": _changed_after_end,
    "stale_result_applied": _stale_result_applied,
    "result_without_dispatch": _result_without_dispatch,
    "lost_worker_dispatch": _lost_worker_dispatch,
    "lease_broken": _lease_broken,
    "unfair_wait": _unfair_wait,
}
#: First job number of planted faults; ordinary jobs have lower ones.
FIRST_JOB: Final = 1 << 40


def planted(world: SynthWorld, names: Sequence[str], start_us: int) -> Batch:
    """Return the records of the planted faults, one fault every five seconds."""
    rows: list[Row] = []
    for number, name in enumerate(names):
        history = PlantedHistory(world, start_us + number * 5 * SECOND, FIRST_JOB + number * 10_000)
        PLANTS[name](history)
        rows += history.rows
    return to_batch(rows)
