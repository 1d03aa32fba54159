"""Queues: one per service, each with its lanes.

A *lane* holds the parts of one service that need the same kind of worker (any, one name, one label
expression, the same capacity), so a part that waits for a busy worker never blocks another.
"""

from collections.abc import Iterator
from typing import Final

from dragoman.core.jobs import Job, JobPart
from dragoman.core.lanes import LaneKey, QueueLane, Turns
from dragoman.core.limiters import Limiters
from dragoman.model.capacity import NOTHING
from dragoman.model.names import ServiceName, WorkerName
from dragoman.model.target import Labelled

#: Bytes that a body in memory takes beside its content.
BODY_OVERHEAD: Final = 200
_UNLIMITED: Final = 2**63


class Queue:
    """Everything queued for one service, with its size."""

    def __init__(self) -> None:
        #: Lanes that are not bound to one worker.
        self.lanes: dict[LaneKey, QueueLane] = {}
        #: Jobs without parts: no worker matches their target yet.
        self.unbound: dict[str, Job] = {}
        #: Jobs that may not start yet.
        self.delayed: dict[str, Job] = {}
        #: Number of queued parts, and the bytes of requests, also of delayed jobs.
        self.jobs = 0
        self.bytes = 0


class Queues:
    """The queues of all services, and the lanes of each bound worker."""

    def __init__(self, body_limit: int, limiters: Limiters) -> None:
        self._limiters = limiters
        self._queues: dict[ServiceName, Queue] = {}
        self._bound: dict[WorkerName, dict[LaneKey, QueueLane]] = {}
        self.turns = Turns()
        #: Memory for the bodies of queued requests, over all services: the limit, and its use.
        self.body_limit = body_limit or _UNLIMITED
        self.body_bytes = 0
        self._last_entry_id = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is queued."""
        return not self._queues

    def of(self, service: ServiceName) -> Queue:
        """Return a service's queue; create it if needed."""
        queue = self._queues.get(service)
        if queue is None:
            queue = self._queues[service] = Queue()
        return queue

    def find(self, service: ServiceName) -> Queue | None:
        """Return a service's queue if anything is queued."""
        return self._queues.get(service)

    def services(self) -> list[ServiceName]:
        """Return the services that have a queue."""
        return list(self._queues)

    def push(self, part: JobPart) -> None:
        """Queue a part in its lane."""
        queue = self.of(part.service)
        self._last_entry_id += 1
        self.turns.enter(part.job.client)
        self._lane(queue, part).push(part, self._last_entry_id)
        queue.jobs += 1
        queue.bytes += part.nbytes
        self._keep_body(part)

    def _keep_body(self, part: JobPart) -> None:
        """Keep the body of a queued part in memory if there is room; the ledger has it."""
        if part.request is None:
            return
        size = part.nbytes + BODY_OVERHEAD
        if self.body_bytes + size > self.body_limit:
            part.request = None
        else:
            self.body_bytes += size

    def _lane(self, queue: Queue, part: JobPart) -> QueueLane:
        target, terms = part.target, part.job.terms
        labels = target.expression if type(target) is Labelled and part.bound is None else ""
        needs = None if terms.needs is NOTHING else terms.needs
        rules = self._limiters.rules_of_lane(part.service, part.task)
        limits = tuple([limiter.name for limiter, _ in rules]) if rules else ()
        key = (part.service, part.bound, labels, needs, terms.balance, terms.path, limits)
        lanes = self._bound.setdefault(part.bound, {}) if part.bound else queue.lanes
        lane = lanes.get(key)
        if lane is None:
            lane = lanes[key] = QueueLane(part, key, self.turns, self._limiters)
        return lane

    def discard(self, part: JobPart) -> None:
        """Remove a part from its lane, if it is queued; drop empty lanes and queues."""
        lane = part.queued_in
        if lane is None:
            return
        lane.discard(part)
        self.turns.leave(part.queued_client)
        queue = self._queues[lane.service]
        queue.jobs -= 1
        queue.bytes -= part.nbytes
        if part.request is not None:
            self.body_bytes -= part.nbytes + BODY_OVERHEAD
        if not len(lane):
            self._drop(queue, lane)
        self.tidy(lane.service)

    def _drop(self, queue: Queue, lane: QueueLane) -> None:
        lane.close()
        if not lane.bound:
            del queue.lanes[lane.key]
            return
        lanes = self._bound[lane.bound]
        del lanes[lane.key]
        if not lanes:
            del self._bound[lane.bound]

    def tidy(self, service: ServiceName) -> None:
        """Drop an empty queue, so that invented service names cost no memory."""
        queue = self._queues.get(service)
        if queue is not None and not (queue.jobs or queue.unbound or queue.delayed):
            del self._queues[service]

    def delay(self, job: Job) -> None:
        """Keep a job that may not start yet. The ledger has its request."""
        queue = self.of(job.service)
        queue.delayed[job.id] = job
        queue.bytes += job.nbytes
        job.request = None
        for part in job.parts:
            part.request = None

    def undelay(self, job: Job) -> None:
        """Let go of a delayed job: it starts or ends."""
        queue = self.of(job.service)
        if queue.delayed.pop(job.id, None) is not None:
            queue.bytes -= job.nbytes
        self.tidy(job.service)

    def sort_again(self, service: ServiceName) -> None:
        """Put the parts of a service, and of its versions, into the lanes of its changed limits."""
        found = [lane for lane in self.lanes() if lane.service.partition("@")[0] == service]
        parts = [entry[4] for _, entry in sorted(r for lane in found for r in lane.ranked())]
        for part in parts:
            self.discard(part)
        for part in parts:
            self.push(part)

    def bound_to(self, name: WorkerName) -> list[QueueLane]:
        """Return the lanes that only this worker may serve."""
        lanes = self._bound.get(name)
        return list(lanes.values()) if lanes else []

    def bound_names(self) -> list[WorkerName]:
        """Return the workers that parts are queued for by name."""
        return list(self._bound)

    def lanes(self) -> Iterator[QueueLane]:
        """Yield every lane."""
        for queue in self._queues.values():
            yield from queue.lanes.values()
        for lanes in self._bound.values():
            yield from lanes.values()

    def unbound(self) -> list[Job]:
        """Return every job that waits to be bound to workers."""
        return [job for queue in self._queues.values() for job in queue.unbound.values()]
