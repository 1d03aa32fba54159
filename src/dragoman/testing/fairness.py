"""The fairness bound: while a client waits, each other one is served once before it, or as often
as its weight says. An adopted job brings its own weight, so the highest weight of its turn counts.

The bound counts dispatches of workers that could take the waiting part, from when it waits until
its client is served. Parts that a worker refused, that may not fit, or that are under a limit do
not count. A part that follows its resource to another worker starts to wait there.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from dragoman.core.jobs import JobPart
from dragoman.core.state import BrokerState
from dragoman.model.capacity import NOTHING
from dragoman.model.names import JobId, WorkerName
from dragoman.model.record import Kind, Record


class Fairness:
    """Counts, per waiting client, how often each other client was served before it."""

    def __init__(self) -> None:
        #: Parts that waited after the last event, with their bound worker, by client.
        self._waiting: dict[str, list[tuple[JobPart, WorkerName | None]]] = {}
        self._served: defaultdict[str, Counter[str]] = defaultdict(Counter)
        #: The highest weight of the dispatches that were counted, the same way.
        self._weights: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def observe(self, records: Sequence[Record], state: BrokerState) -> None:
        """Count the dispatches of an event that passed over clients that still wait."""
        # A job that another client adopted keeps the turn of its first client.
        given = [(_turn_of(r, state), r) for r in records if r.kind == Kind.DISPATCHED]
        served = {client for client, _ in given}
        for client, parts in self._waiting.items():
            still = [p for p, bound in parts if p.queued_in is not None and p.bound == bound]
            if client in served or not still:
                self._served.pop(client, None)
                self._weights.pop(client, None)
            else:
                self._count(client, still, given, state)
        self._waiting = {}
        for lane in state.queues.lanes():
            for part in lane.waiting():
                self._waiting.setdefault(part.queued_client, []).append((part, part.bound))

    def _count(
        self, client: str, parts: list[JobPart], given: list[tuple[str, Record]], state: BrokerState
    ) -> None:
        served, weights = self._served[client], self._weights[client]
        for other, record in given:
            if other != client and any(_could_take(state, record, p) for p in parts):
                served[other] += 1
                weight = state.store.jobs[JobId(record.job)].terms.weight
                weights[other] = max(weights[other], weight)
                assert served[other] <= weights[other], (
                    f"{other} was served {served[other]} times while {client} waited; "
                    f"the last was {record.job} on {record.worker}"
                )


def _turn_of(record: Record, state: BrokerState) -> str:
    return state.store.jobs[JobId(record.job)].parts[record.part].queued_client


def _could_take(state: BrokerState, record: Record, part: JobPart) -> bool:
    worker = state.registry.workers.get(record.peer)  # type: ignore[call-overload]
    if part.service in state.store.queue.paused or state.limiters.rules_of(part):
        return False
    if worker is None or part.refused_by is not None or part.job.terms.needs is not NOTHING:
        return False
    if len(part.job.parts) > 1 and any(p.key in worker.held for p in part.job.parts):
        return False
    if any(name in state.moving for name in part.resources):
        return False
    if not worker.leads_away_from(part.job.terms.path):
        return False
    if part.bound:
        return bool(part.bound == worker.name)
    lane = part.queued_in
    return part.service in worker.services and all(r.holds(worker.labels) for r in lane.wanted)
