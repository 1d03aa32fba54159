"""Queues: one per service, fair between clients, by priority inside one client.

A *lane* holds the parts of one service that need the same kind of worker (any, one name, one label
expression, the same capacity), so a part that waits for a busy worker never blocks another. Clients
are served in round robin by last service, over all lanes; a client that starts to wait goes last.
So while a part waits, the workers that could take it serve each other client at most once. A
client's own parts go by priority, then by age.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from dragoman.core.jobs import Job, JobPart
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.labels import Requirement
from dragoman.model.names import PeerId, ServiceName, WorkerName
from dragoman.model.target import Labelled

LaneKey = tuple[ServiceName, WorkerName | None, str, Capacity | None, str, tuple[str, ...]]
#: (-priority, age, part index, entry id, part): a client's own order. Entry ids are unique.
QueueEntry = tuple[int, int, int, int, JobPart]
#: (turn of the client, entry): the order over all lanes.
Ranked = tuple[int, QueueEntry]

_SWEEP_ABOVE: Final = 64
#: Bytes that a body in memory takes beside its content.
BODY_OVERHEAD: Final = 200
_UNLIMITED: Final = 2**63


class Turns:
    """Round robin: a turn number for each client with queued parts; the lowest is next."""

    def __init__(self) -> None:
        self.numbers: dict[PeerId, int] = {}
        self._waiting: dict[PeerId, int] = {}
        self._last = 0

    def enter(self, client: PeerId) -> None:
        """Count one more part of a client. A client without parts before gets the last turn."""
        count = self._waiting.get(client, 0)
        if not count:
            self._last += 1
            self.numbers[client] = self._last
        self._waiting[client] = count + 1

    def leave(self, client: PeerId) -> None:
        """Count one part of a client less."""
        count = self._waiting[client] - 1
        if count:
            self._waiting[client] = count
        else:
            del self._waiting[client], self.numbers[client]

    def served(self, client: PeerId) -> None:
        """Move a client that was served to the last turn."""
        if client in self.numbers:
            self._last += 1
            self.numbers[client] = self._last


class QueueLane:
    """Parts of one service that the same workers can take."""

    def __init__(self, part: JobPart, key: LaneKey, turns: Turns) -> None:
        self.key = key
        self.service = part.service
        self.bound = part.bound
        target = part.target
        self.wanted: tuple[Requirement, ...] = (
            target.requirements if type(target) is Labelled and part.bound is None else ()
        )
        self.needs: Capacity = part.job.terms.needs
        self.balance = part.job.terms.balance
        self.path = part.job.terms.path
        self._turns = turns
        self._heaps: dict[PeerId, list[QueueEntry]] = {}
        #: (turn when it was pushed, client); an outdated turn is corrected when it comes up.
        self._order: list[tuple[int, PeerId]] = []
        self._size = 0
        self._swept = 0

    def __len__(self) -> int:
        return self._size

    def push(self, part: JobPart, entry_id: int) -> None:
        """Queue a part. A part that was dispatched before keeps its age, so it goes first."""
        job = part.job
        client = job.client
        heap = self._heaps.get(client)
        if heap is None:
            heap = self._heaps[client] = []
            heappush(self._order, (self._turns.numbers[client], client))
        heappush(heap, (-job.terms.priority, job.submit_seq, part.index, entry_id, part))
        part.queued_in, part.entry_id, part.queued_client = self, entry_id, client
        self._size += 1

    def discard(self, part: JobPart) -> None:
        """Remove a part; its heap entry is removed later."""
        part.queued_in, part.entry_id = None, 0
        self._size -= 1
        self._swept += 1
        if self._swept > _SWEEP_ABOVE and self._swept > self._size:
            self._sweep()

    def _sweep(self) -> None:
        """Remove the entries of parts that left; they would pile up behind one that stays."""
        self._swept = 0
        for client, heap in list(self._heaps.items()):
            live = [e for e in heap if e[4].entry_id == e[3]]
            heapify(live)
            if live:
                self._heaps[client] = live
            else:
                del self._heaps[client]
        self._order = [(self._turns.numbers[client], client) for client in self._heaps]
        heapify(self._order)

    def first(self, suits: Callable[[JobPart], bool] | None = None) -> Ranked | None:
        """Return the next part, among those that suit."""
        head = self._head()
        if head is None or suits is None or suits(head[1][4]):
            return head
        # The next part does not suit this worker. Search all entries; this is rare.
        return min((r for r in self._ranked() if suits(r[1][4])), default=None)

    def _head(self) -> Ranked | None:
        order, heaps, numbers = self._order, self._heaps, self._turns.numbers
        while order:
            turn, client = order[0]
            heap = heaps[client]
            while heap and heap[0][4].entry_id != heap[0][3]:
                heappop(heap)
            if not heap:
                heappop(order)
                del heaps[client]
            elif numbers[client] != turn:
                heapreplace(order, (numbers[client], client))
            else:
                return turn, heap[0]
        return None

    def _ranked(self) -> Iterator[Ranked]:
        for client, heap in self._heaps.items():
            for entry in heap:
                if entry[4].entry_id == entry[3]:
                    yield self._turns.numbers[client], entry

    def waiting(self) -> list[JobPart]:
        """Return every queued part, in no particular order."""
        return [entry[4] for _, entry in self._ranked()]


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

    def __init__(self, body_limit: int) -> None:
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
        key = (part.service, part.bound, labels, needs, terms.balance, terms.path)
        lanes = self._bound.setdefault(part.bound, {}) if part.bound else queue.lanes
        lane = lanes.get(key)
        if lane is None:
            lane = lanes[key] = QueueLane(part, key, self.turns)
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
