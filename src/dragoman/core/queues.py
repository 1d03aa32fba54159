"""What waits: a queue per service, fair between clients, by priority inside one client.

A *lane* holds the parts of one service that want the same kind of worker (any, one name, one label
expression, the same needs), so a part that must wait for a busy worker never blocks one that need
not. Inside a lane clients take turns; a client's own parts go by priority, then by age.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from dragoman.core.book import Job, Part
from dragoman.model.capacity import Capacity
from dragoman.model.labels import Requirement
from dragoman.model.names import PeerId, ServiceName, WorkerName
from dragoman.model.target import Labelled

LaneKey = tuple[ServiceName, WorkerName, str, tuple[float, ...]]


class Lane:
    """Parts that the same workers can take."""

    def __init__(self, part: Part, key: LaneKey) -> None:
        self.key = key
        self.service = part.service
        self.bound = part.bound
        target = part.job.target
        self.wanted: tuple[Requirement, ...] = (
            target.requirements if isinstance(target, Labelled) and part.bound is None else ()
        )
        self.needs: Capacity = part.job.terms.needs
        self.balance = part.job.terms.balance
        #: Client -> heap of (-priority, age, part index, part); the first client is next.
        self._clients: OrderedDict[PeerId, list[tuple[int, int, int, Part]]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, part: Part) -> None:
        """Let a part wait. An old one that comes back keeps its age, so it is next."""
        job = part.job
        heap = self._clients.setdefault(job.client, [])
        heappush(heap, (-job.terms.priority, job.submit_seq, part.index, part))
        part.queued_in = self
        self._size += 1

    def discard(self, part: Part) -> None:
        """Take a part out; its entry is swept when its turn comes."""
        if part.queued_in is self:
            part.queued_in = None
            self._size -= 1

    def take(self, suits: Callable[[Part], bool]) -> Part | None:
        """Take the next part that suits, and move its client to the end of the turn."""
        for client in list(self._clients):
            heap = self._clients[client]
            while heap and heap[0][3].queued_in is not self:
                heappop(heap)
            if not heap:
                del self._clients[client]
            elif suits(heap[0][3]):
                part = heappop(heap)[3]
                if heap:
                    self._clients.move_to_end(client)
                else:
                    del self._clients[client]
                self.discard(part)
                return part
        return None

    def waiting(self) -> list[Part]:
        """Return every part that waits, in no order."""
        found = {e[3].key: e[3] for heap in self._clients.values() for e in heap}
        return [p for p in found.values() if p.queued_in is self]

    def matches_labels(self, labels: "dict[str, str]") -> bool:
        """Whether a worker with these labels may serve the lane."""
        return all(r.holds(labels) for r in self.wanted)


class Queue:
    """All that waits for one service, with its size."""

    def __init__(self) -> None:
        self.lanes: dict[LaneKey, Lane] = {}
        #: Jobs whose workers are not bound yet, because there are none.
        self.unbound: dict[str, Job] = {}
        self.jobs = 0
        self.bytes = 0


class Queues:
    """The queues of all services, and the lanes of each bound worker."""

    def __init__(self) -> None:
        self._queues: dict[ServiceName, Queue] = {}
        self._bound: dict[WorkerName, dict[LaneKey, Lane]] = {}

    def of(self, service: ServiceName) -> Queue:
        """Return a service's queue, new if need be."""
        queue = self._queues.get(service)
        if queue is None:
            queue = self._queues[service] = Queue()
        return queue

    def find(self, service: ServiceName) -> Queue | None:
        """Return a service's queue if anything waits or waited there."""
        return self._queues.get(service)

    def services(self) -> list[ServiceName]:
        """Return the services that have a queue."""
        return list(self._queues)

    def push(self, part: Part) -> Lane:
        """Let a part wait in its lane."""
        queue = self.of(part.service)
        lane = self._lane(queue, part)
        lane.push(part)
        queue.jobs += 1
        queue.bytes += _size(part)
        return lane

    def _lane(self, queue: Queue, part: Part) -> Lane:
        target, needs = part.job.target, part.job.terms.needs
        labels = target.expression if type(target) is Labelled and part.bound is None else ""
        weight = (needs.cpu, needs.memory, needs.disk, needs.gpu, needs.slots)
        key = (part.service, part.bound or WorkerName(""), labels, weight)
        lane = queue.lanes.get(key)
        if lane is None:
            lane = queue.lanes[key] = Lane(part, key)
            if part.bound:
                self._bound.setdefault(part.bound, {})[key] = lane
        return lane

    def discard(self, part: Part) -> None:
        """Take a part out of its lane, if it waits."""
        lane = part.queued_in
        if lane is not None:
            lane.discard(part)
            self.taken(part, lane)

    def taken(self, part: Part, lane: Lane) -> None:
        """Account for a part that left a lane; drop what is empty."""
        queue = self._queues[lane.service]
        queue.jobs -= 1
        queue.bytes -= _size(part)
        if not len(lane):
            del queue.lanes[lane.key]
            if lane.bound:
                lanes = self._bound[lane.bound]
                del lanes[lane.key]
                if not lanes:
                    del self._bound[lane.bound]
        self.tidy(lane.service)

    def tidy(self, service: ServiceName) -> None:
        """Drop a queue that holds nothing, so that made-up service names cost nothing."""
        queue = self._queues.get(service)
        if queue is not None and not queue.lanes and not queue.unbound:
            del self._queues[service]

    def bound_to(self, name: WorkerName) -> list[Lane]:
        """Return the lanes that only this worker may serve."""
        return list(self._bound.get(name, {}).values())

    def lanes(self) -> Iterator[Lane]:
        """Yield every lane."""
        for queue in self._queues.values():
            yield from queue.lanes.values()


def _size(part: Part) -> int:
    return part.request.size if part.request is not None else 0
