"""Faults on demand: short scenes, each of which breaks exactly one promise.

They happen in a service of their own, with workers and clients of their own, so that nothing
else in the ledger is touched.
"""

from collections.abc import Callable, Sequence
from typing import Final

from dragoman.pipeline.fairness import MOST_TURNS
from dragoman.pipeline.synth_jobs import Batch
from dragoman.pipeline.synth_sessions import to_batch
from dragoman.pipeline.synth_world import DIALECT, FAULT, KIND, PROBE, STATE, SynthWorld

#: What becomes of a record when it is written: left out, or written twice.
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
        #: Two clients: one who waits, one who floods.
        self.quiet, self.loud = 1, 2
        self.rows: list[Row] = []

    def submit(self, client: int = 1, deadline_us: int = 900 * SECOND) -> Row:
        """Take a new job in; the records that follow are about it."""
        self.job += 1
        self.at += 1_000
        about = {"job": self.job, "service": self.service, "client": client}
        times = {"submitted_at": self.at, "deadline_at": self.at + deadline_us}
        self.about = about | times
        return self.note(
            "submitted", state=STATE["queued"], target=1, nbytes=10, dialect=DIALECT["nfp"]
        )

    def note(self, kind: str, **columns: int) -> Row:
        """Write a record about the job at hand."""
        self.at += 1_000
        row = self.about | {"at": self.at, "kind": KIND[kind]} | columns
        if kind == "submitted":
            row["at"] = row["submitted_at"]
        self.rows.append(row)
        return row

    def dispatch(self, worker: int, attempt: int = 1) -> Row:
        """Give the job to a worker."""
        running = {"state": STATE["running"], "dialect": DIALECT["nfp"]}
        return self.note("dispatched", worker=worker, attempt=attempt, **running)

    def requeue(self, worker: int, attempt: int, fault: str) -> Row:
        """Take the job back."""
        return self.note(
            "requeued", worker=worker, attempt=attempt, state=STATE["queued"], fault=FAULT[fault]
        )

    def end(self, worker: int, attempt: int = 1) -> Row:
        """End the job well."""
        return self.note(
            "ended", worker=worker, attempt=attempt, state=STATE["succeeded"], nbytes=5
        )


def _sequence_gap(scene: PlantedHistory) -> None:
    scene.submit()
    scene.dispatch(scene.a)
    scene.note("progress", worker=scene.a, attempt=1)["flag"] = DROPPED
    scene.end(scene.a)


def _sequence_repeat(scene: PlantedHistory) -> None:
    scene.submit()
    scene.dispatch(scene.a)
    scene.note("progress", worker=scene.a, attempt=1)["flag"] = TWICE
    scene.end(scene.a)


def _no_final_state(scene: PlantedHistory) -> None:
    scene.submit(deadline_us=SECOND)
    scene.dispatch(scene.a)


def _two_final_states(scene: PlantedHistory) -> None:
    scene.submit()
    scene.dispatch(scene.a)
    scene.end(scene.a)
    scene.end(scene.a)


def _changed_after_end(scene: PlantedHistory) -> None:
    scene.submit()
    scene.dispatch(scene.a)
    scene.end(scene.a)
    scene.dispatch(scene.b, 2)


def _stale_result_applied(scene: PlantedHistory) -> None:
    scene.submit()
    scene.dispatch(scene.a)
    scene.requeue(scene.a, 1, "handed_back")
    scene.dispatch(scene.b, 2)
    scene.end(scene.a, 1)


def _result_without_dispatch(scene: PlantedHistory) -> None:
    scene.submit()
    scene.end(scene.a)


def _lost_worker_dispatch(scene: PlantedHistory) -> None:
    scene.submit()
    row = scene.note("left", worker=scene.c, dialect=DIALECT["nfp"])
    for name in ("job", "client", "submitted_at", "deadline_at"):
        del row[name]
    scene.dispatch(scene.c)
    scene.requeue(scene.c, 1, "undelivered")
    scene.dispatch(scene.a, 2)
    scene.end(scene.a, 2)


def _lease_broken(scene: PlantedHistory) -> None:
    scene.submit()
    scene.dispatch(scene.a)
    scene.requeue(scene.a, 1, "worker_lost")
    scene.dispatch(scene.b, 2)
    scene.end(scene.b, 2)


def _unfair_wait(scene: PlantedHistory) -> None:
    scene.submit(scene.quiet)
    waiting = scene.about
    for _ in range(MOST_TURNS + 1):
        scene.submit(scene.loud)
        scene.dispatch(scene.b)
        scene.end(scene.b)
    scene.about = waiting
    scene.dispatch(scene.a)
    scene.end(scene.a)


#: By the name of the audit's rule that finds it.
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
#: Job numbers of planted scenes; ordinary jobs never get there.
FIRST_JOB: Final = 1 << 40


def planted(world: SynthWorld, names: Sequence[str], start_us: int) -> Batch:
    """Return the records of the planted faults, one scene every five seconds."""
    rows: list[Row] = []
    for number, name in enumerate(names):
        scene = PlantedHistory(world, start_us + number * 5 * SECOND, FIRST_JOB + number * 10_000)
        PLANTS[name](scene)
        rows += scene.rows
    return to_batch(rows)
