"""The registry: which worker offers which service, who has room, who is next.

The only owner of these indexes. A worker is in a service's index of available workers exactly when
it has room; every change of its room or load goes through `WorkerRegistry`.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from dragoman.core.deadlines import Timer
from dragoman.core.events import WorkerJoined
from dragoman.core.jobs import JobPart
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.labels import ANNOUNCED, PREFETCH, Requirement
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.target import read_names

#: Most jobs that may wait in one worker.
_MAX_PREFETCH: Final = 1024
#: Seconds from dispatch to result up to which a worker gets more jobs in advance. A job that waits
#: in a worker can wait about so long; another worker or client cannot be served with it meanwhile.
SHORT_TURNAROUND: Final = 0.2
#: Slots that parents lend, for each slot: a bound for the threads that wait in a worker.
LENT_EACH: Final = 8
#: Added to the load of a worker whose jobs would wait, so that workers with free slots come first.
_WAITING: Final = 1 << 32
#: Added to the load of a worker that is a broker, so that workers of this broker come first.
_FAR: Final = 1 << 40


class RegisteredWorker:
    """A registered worker: what it offers, what it holds, when it was last seen."""

    def __init__(self, joined: WorkerJoined, now: float) -> None:
        self.peer = joined.worker
        self.joined_at = now
        self.seen_at = now
        #: Number of its last dispatch; orders workers by last use.
        self.used_at = 0
        self.beats = 0
        self.beats_sent = 0
        #: Its session ends when it holds nothing.
        self.is_draining = False
        #: An operator drained its name: it stays, and gets no jobs until it is undrained.
        self.is_drained = False
        #: A message could not be delivered; cleared by its next message.
        self.is_blocked = False
        #: The transport reported that its connection is gone.
        self.is_gone = False
        #: The parts it holds.
        self.held: dict[tuple[JobId, int], JobPart] = {}
        #: Those of them that have open children, so that their tasks probably wait.
        self.parents: set[tuple[JobId, int]] = set()
        #: How many jobs it may hold beside its credit now. Grows while jobs return quickly.
        self.extra = 0
        #: The number of its last request that granted credit; 0: its wire has none.
        self.request = 0
        # At most one of each kind runs.
        self.lease_timer: Timer | None = None
        self.beat_timer: Timer | None = None
        self.absence_timer: Timer | None = None
        self.offer(joined)

    def offer(self, joined: WorkerJoined) -> None:
        """Replace the offer with that of a new registration."""
        self.name = joined.name
        self.services = tuple(dict.fromkeys(joined.services))
        #: How many more jobs it may get; if credit returns, how many it may hold at a time.
        self.credit = joined.credit
        self.credit_returns = joined.credit_returns
        #: The most that `extra` may be; such a worker starts its jobs in the order of dispatch.
        self.prefetch = _read_prefetch(joined)
        self.extra = min(self.extra, self.prefetch)
        # An interval of zero or less would make its timers due in an endless loop.
        self.beat_every = joined.beat_every if (joined.beat_every or 0) > 0 else None
        self.missed_allowed = joined.missed_allowed
        self.missed_allowed_busy = joined.missed_allowed_busy or joined.missed_allowed
        self.labels = joined.labels
        self.capacity = joined.capacity
        #: From the dialect, or from a label, which every dialect carries.
        self.resources = joined.resources or read_names(joined.labels.get(ANNOUNCED, ""))
        self.can_cancel = joined.can_cancel
        self.principal = joined.principal
        self.dialect = joined.dialect
        self.is_builtin = joined.is_builtin
        self.rejoins_within = joined.rejoins_within
        #: If it is a broker: the brokers that its jobs pass, itself first.
        self.route = joined.route

    @property
    def has_room(self) -> bool:
        """Whether it may get a job now."""
        if self.is_draining or self.is_drained or self.is_blocked:
            return False
        credit = self.credit
        if credit is None:
            return True
        if not self.credit_returns:
            return credit > 0
        lent = self.lent if self.parents else 0
        return credit + self.extra + lent > len(self.held)

    @property
    def lent(self) -> int:
        """How many slots its waiting parents lend to other jobs, if credit returns."""
        if not self.parents or self.credit is None or not self.credit_returns:
            return 0
        return min(len(self.parents), LENT_EACH * self.credit)

    @property
    def has_free_slot(self) -> bool:
        """Whether a job dispatched now would start at once, not wait in the worker."""
        return not self.prefetch or self.credit is None or self.credit + self.lent > len(self.held)

    def note_turnaround(self, seconds: float) -> None:
        """Adapt `extra` to the time from a dispatch to its result: grow slowly, shrink fast."""
        if seconds > SHORT_TURNAROUND:
            self.extra //= 2
        elif self.extra < self.prefetch:
            self.extra += 1

    def unstarted(self) -> set[JobPart]:
        """Return the held parts that it cannot have started while older ones run.

        A broker gives its jobs to several workers, in an order of its own.
        """
        if not self.prefetch or self.credit is None or self.route:
            return set()
        return set(list(self.held.values())[self.credit + self.lent :])

    @property
    def lease(self) -> float | None:
        """How long it may be silent before it is lost; None: no limit."""
        if self.beat_every is None:
            return None
        # The longer lease of a busy worker needs a connection that proves it alive.
        is_busy = self.held and not self.is_gone
        return self.beat_every * (self.missed_allowed_busy if is_busy else self.missed_allowed)

    def leads_away_from(self, path: tuple[str, ...]) -> bool:
        """Tell whether a job that has passed these brokers passes none of them again."""
        return not path or not self.route or set(path).isdisjoint(self.route)

    def fits(self, needs: Capacity) -> bool:
        """Tell whether a job with these needs fits beside the jobs it holds."""
        if needs is NOTHING or self.capacity is None:
            return True
        return self.capacity.minus(self.used).holds(needs)

    @property
    def used(self) -> Capacity:
        """The capacity that the jobs it holds take."""
        used = NOTHING
        for part in self.held.values():
            used = used.plus(part.job.terms.needs)
        return used


def _read_prefetch(joined: WorkerJoined) -> int:
    """Return how many jobs may wait in a worker. Only for credit that returns with the results."""
    text = joined.labels.get(PREFETCH, "")
    if joined.credit is None or not joined.credit_returns or not text.isdecimal():
        return 0
    return min(int(text[:9]), _MAX_PREFETCH)


class ServicePool:
    """The workers of one service; those with room are indexed for each balance."""

    def __init__(self) -> None:
        #: All workers, in the order they joined.
        self.members: dict[PeerId, RegisteredWorker] = {}
        #: Load -> workers with room, least recently used first.
        self.by_load: dict[int, OrderedDict[PeerId, RegisteredWorker]] = {}
        #: Workers with a free slot, least recently dispatched to first.
        self.by_last_use: OrderedDict[PeerId, RegisteredWorker] = OrderedDict()
        #: The same for workers in which a job would wait.
        self.prefetching: OrderedDict[PeerId, RegisteredWorker] = OrderedDict()
        #: The key of each worker with room in `by_load`.
        self.loads: dict[PeerId, int] = {}

    def reindex(self, worker: RegisteredWorker) -> None:
        """Update the indexes after a change of a worker's room or load."""
        peer = worker.peer
        old = self.loads.get(peer)
        if not worker.has_room:
            if old is not None:
                self._take_from_load(peer, old)
                del self._order_of(old)[peer]
            return
        load = load_of(worker)
        if old is None:
            self._order_of(load)[peer] = worker
            self._put_at_load(worker, load)
        elif old != load:
            self._take_from_load(peer, old)
            self._put_at_load(worker, load)
            if (old >= _WAITING) != (load >= _WAITING):
                del self._order_of(old)[peer]
                self._order_of(load)[peer] = worker

    def _order_of(self, load: int) -> OrderedDict[PeerId, RegisteredWorker]:
        return self.prefetching if load >= _WAITING else self.by_last_use

    def used(self, worker: RegisteredWorker) -> None:
        """Move a worker with room to the end of its order."""
        load = self.loads.get(worker.peer)
        if load is not None:
            self._order_of(load).move_to_end(worker.peer)

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
        """Remove a worker."""
        self.members.pop(peer, None)
        load = self.loads.get(peer)
        if load is not None:
            del self._order_of(load)[peer]
            self._take_from_load(peer, load)

    def in_order(self, balance: str) -> Iterator[RegisteredWorker]:
        """Yield the workers with room, best choice first; free slots before waiting places."""
        if balance != "least_loaded":
            yield from self.by_last_use.values()
            yield from self.prefetching.values()
            return
        for load in sorted(self.by_load):
            yield from self.by_load[load].values()


def load_of(worker: RegisteredWorker) -> int:
    """Return the key of a worker in `ServicePool.by_load`."""
    load = len(worker.held)
    if worker.route:
        load += _FAR
    if worker.prefetch and not worker.has_free_slot:
        load += _WAITING
    return load


class WorkerRegistry:
    """All workers, by peer, by name and by service."""

    def __init__(self) -> None:
        self.workers: dict[PeerId, RegisteredWorker] = {}
        self.names: dict[WorkerName, dict[PeerId, RegisteredWorker]] = {}
        self.pools: dict[ServiceName, ServicePool] = {}
        #: Resource -> the workers that own it.
        self.owners: dict[str, dict[PeerId, RegisteredWorker]] = {}
        #: Draining workers without jobs, until their sessions are ended.
        self.drained: list[RegisteredWorker] = []
        self._uses = 0

    def add(self, worker: RegisteredWorker) -> None:
        """Index a new worker, or one whose offer changed."""
        self.workers[worker.peer] = worker
        self.names.setdefault(worker.name, {})[worker.peer] = worker
        for service in worker.services:
            pool = self.pools.setdefault(service, ServicePool())
            pool.members[worker.peer] = worker
            pool.reindex(worker)
        for resource in worker.resources:
            self.owners.setdefault(resource, {})[worker.peer] = worker

    def remove(self, worker: RegisteredWorker) -> None:
        """Remove a worker from every index."""
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
        """Update the indexes of a worker whose room may have changed."""
        for service in worker.services:
            self.pools[service].reindex(worker)

    def hold(self, worker: RegisteredWorker, part: JobPart) -> None:
        """Assign a part to a worker: one credit less, load plus one."""
        worker.held[part.key] = part
        if worker.credit is not None and not worker.credit_returns:
            worker.credit -= 1
        self._uses += 1
        worker.used_at = self._uses
        for service in worker.services:
            pool = self.pools[service]
            pool.reindex(worker)
            pool.used(worker)

    def release(self, worker: RegisteredWorker, part: JobPart) -> None:
        """Remove a part from a worker. Spent credit is not returned."""
        key = part.key
        if worker.held.pop(key, None) is None:
            return
        worker.parents.discard(key)
        if worker.is_draining and not worker.held:
            self.drained.append(worker)
        self.refresh(worker)
        if part.job.terms.balance == "least_recently_used":
            for service in worker.services:
                self.pools[service].used(worker)

    def note_children(self, worker: RegisteredWorker, part: JobPart, has_open: bool) -> None:
        """Note whether the job of a held part has open children: then it lends its slot."""
        if has_open:
            worker.parents.add(part.key)
        else:
            worker.parents.discard(part.key)
        self.refresh(worker)

    def members(self, service: ServiceName) -> Iterable[RegisteredWorker]:
        """Return the workers of a service; for the service `all`, every worker not built in."""
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
        """Return the workers with this name (several only if dialects use the same name)."""
        return list(self.names.get(name, {}).values())


def _drop(index: dict[str, dict[PeerId, RegisteredWorker]] | dict[WorkerName, dict[PeerId,
RegisteredWorker]],
          key: str, peer: PeerId) -> None:  # fmt: skip
    """Remove a worker from a nested index; drop the inner dict if it is empty."""
    found = index.get(key)  # type: ignore[call-overload]
    if found is not None:
        found.pop(peer, None)
        if not found:
            del index[key]  # type: ignore[arg-type]
