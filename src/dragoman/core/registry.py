"""Services and workers: who offers what, how much each may still be given, who is next.

The only owner of those indexes. A worker is in a service's index of available workers exactly when
it has room; every change of its room or load goes through `WorkerRegistry`.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from dragoman.core.deadlines import Timer
from dragoman.core.events import WorkerJoined
from dragoman.core.jobs import JobPart
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.labels import ANNOUNCED, Requirement
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.target import read_names


class RegisteredWorker:
    """A registered worker: what it offered, what it holds, when it was heard."""

    def __init__(self, joined: WorkerJoined, now: float) -> None:
        self.peer = joined.worker
        self.joined_at = now
        self.seen_at = now
        #: When it was last given work; orders the least recently used.
        self.used_at = 0
        self.beats = 0
        self.is_draining = False
        #: Its transport took no more, or cannot reach it; a sign of life lifts this.
        self.is_blocked = False
        #: Its transport says that nobody is there.
        self.is_gone = False
        #: The parts it holds.
        self.held: dict[tuple[JobId, int], JobPart] = {}
        # At most one of each is running: for its silence, for our beats, for its absence.
        self.lease_due: Timer | None = None
        self.beat_due: Timer | None = None
        self.absence_due: Timer | None = None
        self.offer(joined)

    def offer(self, joined: WorkerJoined) -> None:
        """Take over what the worker says it offers."""
        self.name = joined.name
        self.services = tuple(dict.fromkeys(joined.services))
        #: How many jobs it may still be given or, where credit returns, hold at a time.
        self.credit = joined.credit
        self.credit_returns = joined.credit_returns
        # An interval that is no interval would make everything due at once, for ever.
        self.beat_every = joined.beat_every if (joined.beat_every or 0) > 0 else None
        self.missed_allowed = joined.missed_allowed
        self.missed_allowed_busy = joined.missed_allowed_busy or joined.missed_allowed
        self.labels = joined.labels
        self.capacity = joined.capacity
        #: As its dialect says, or as it says itself with a label, which every dialect carries.
        self.resources = joined.resources or read_names(joined.labels.get(ANNOUNCED, ""))
        self.can_cancel = joined.can_cancel
        self.principal = joined.principal
        self.dialect = joined.dialect
        self.is_builtin = joined.is_builtin
        self.rejoins_within = joined.rejoins_within

    @property
    def has_room(self) -> bool:
        """Whether it may be given a job now."""
        if self.is_draining or self.is_blocked:
            return False
        if self.credit is None:
            return True
        return self.credit > (len(self.held) if self.credit_returns else 0)

    @property
    def lease(self) -> float | None:
        """How long it may be silent before it is lost; None: for ever."""
        if self.beat_every is None:
            return None
        # One that computes in silence is known by its connection: without that, it is as any.
        is_busy = self.held and not self.is_gone
        return self.beat_every * (self.missed_allowed_busy if is_busy else self.missed_allowed)

    def fits(self, needs: Capacity) -> bool:
        """Whether a job with these needs fits beside what it holds."""
        if needs is NOTHING or self.capacity is None:
            return True
        return self.capacity.minus(self.used).holds(needs)

    @property
    def used(self) -> Capacity:
        """What the jobs it holds take of its capacity."""
        used = NOTHING
        for part in self.held.values():
            used = used.plus(part.job.terms.needs)
        return used


class ServicePool:
    """The workers of one service, and those of them with room in the order of each balance."""

    def __init__(self) -> None:
        #: All, in the order they joined.
        self.members: dict[PeerId, RegisteredWorker] = {}
        #: Load -> those with room, least recently used first.
        self.by_load: dict[int, OrderedDict[PeerId, RegisteredWorker]] = {}
        #: Those with room, least recently dispatched to first.
        self.ring: OrderedDict[PeerId, RegisteredWorker] = OrderedDict()
        #: Where each available worker stands in `by_load`.
        self.loads: dict[PeerId, int] = {}

    def place(self, worker: RegisteredWorker) -> None:
        """Put a worker where its room and load say."""
        peer, load = worker.peer, len(worker.held)
        old = self.loads.get(peer)
        if not worker.has_room:
            if old is not None:
                self._take_from_load(peer, old)
                del self.ring[peer]
        elif old is None:
            self.ring[peer] = worker
            self._put_at_load(worker, load)
        elif old != load:
            self._take_from_load(peer, old)
            self._put_at_load(worker, load)

    def _put_at_load(self, worker: RegisteredWorker, load: int) -> None:
        bucket = self.by_load.get(load)
        if bucket is None:
            bucket = self.by_load[load] = OrderedDict()
        bucket[worker.peer] = worker
        self.loads[worker.peer] = load

    def _take_from_load(self, peer: PeerId, load: int) -> None:
        bucket = self.by_load[load]
        del bucket[peer], self.loads[peer]
        if not bucket:
            del self.by_load[load]

    def remove(self, peer: PeerId) -> None:
        """Forget a worker."""
        self.members.pop(peer, None)
        self.ring.pop(peer, None)
        load = self.loads.get(peer)
        if load is not None:
            self._take_from_load(peer, load)

    def in_order(self, balance: str) -> Iterator[RegisteredWorker]:
        """Yield those with room, the best choice first."""
        if balance != "least_loaded":
            yield from self.ring.values()
            return
        for load in sorted(self.by_load):
            yield from self.by_load[load].values()


class WorkerRegistry:
    """All workers, by peer, by name and by service."""

    def __init__(self) -> None:
        self.workers: dict[PeerId, RegisteredWorker] = {}
        self.names: dict[WorkerName, dict[PeerId, RegisteredWorker]] = {}
        self.pools: dict[ServiceName, ServicePool] = {}
        #: Resource -> the workers that own it.
        self.owners: dict[str, dict[PeerId, RegisteredWorker]] = {}
        #: Draining workers that gave their last job away, until they are let go.
        self.drained: list[RegisteredWorker] = []
        self._uses = 0

    def add(self, worker: RegisteredWorker) -> None:
        """Index a new worker, or one that has changed its offer."""
        self.workers[worker.peer] = worker
        self.names.setdefault(worker.name, {})[worker.peer] = worker
        for service in worker.services:
            pool = self.pools.setdefault(service, ServicePool())
            pool.members[worker.peer] = worker
            pool.place(worker)
        for resource in worker.resources:
            self.owners.setdefault(resource, {})[worker.peer] = worker

    def remove(self, worker: RegisteredWorker) -> None:
        """Take a worker out of every index."""
        del self.workers[worker.peer]
        _drop(self.names, worker.name, worker.peer)
        for service in worker.services:
            pool = self.pools[service]
            pool.remove(worker.peer)
            if not pool.members:
                del self.pools[service]
        for resource in worker.resources:
            _drop(self.owners, resource, worker.peer)

    def refresh(self, worker: RegisteredWorker) -> None:
        """Re-index a worker whose room may have changed."""
        for service in worker.services:
            self.pools[service].place(worker)

    def hold(self, worker: RegisteredWorker, part: JobPart) -> None:
        """Give a part to a worker: one credit less, one more on its load."""
        worker.held[part.key] = part
        if worker.credit is not None and not worker.credit_returns:
            worker.credit -= 1
        self._uses += 1
        worker.used_at = self._uses
        for service in worker.services:
            pool = self.pools[service]
            pool.place(worker)
            if worker.peer in pool.loads:
                pool.ring.move_to_end(worker.peer)

    def release(self, worker: RegisteredWorker, part: JobPart) -> None:
        """Take a part from a worker, whatever became of it. Spent credit does not come back."""
        if worker.held.pop(part.key, None) is None:
            return
        if worker.is_draining and not worker.held:
            self.drained.append(worker)
        self.refresh(worker)
        if part.job.terms.balance == "least_recently_used":
            for service in worker.services:
                ring = self.pools[service].ring
                if worker.peer in ring:
                    ring.move_to_end(worker.peer)

    def members(self, service: ServiceName) -> Iterable[RegisteredWorker]:
        """Return the workers of a service; of the reserved service, all but the broker's own."""
        if service == "all":
            return [w for w in self.workers.values() if not w.is_builtin]
        pool = self.pools.get(service)
        return pool.members.values() if pool else ()

    def matching(
        self, service: ServiceName, wanted: tuple[Requirement, ...]
    ) -> list[RegisteredWorker]:
        """Return the workers of a service whose labels meet every requirement."""
        return [w for w in self.members(service) if all(r.holds(w.labels) for r in wanted)]

    def named(self, name: WorkerName) -> list[RegisteredWorker]:
        """Return the workers that have this name (one, unless dialects clash)."""
        return list(self.names.get(name, {}).values())


def _drop(index: dict[str, dict[PeerId, RegisteredWorker]] | dict[WorkerName, dict[PeerId,
RegisteredWorker]],
          key: str, peer: PeerId) -> None:  # fmt: skip
    """Remove one worker from an index of dicts, and the dict when it is empty."""
    found = index.get(key)  # type: ignore[call-overload]
    if found is not None:
        found.pop(peer, None)
        if not found:
            del index[key]  # type: ignore[arg-type]
