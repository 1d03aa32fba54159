"""Lanes: queued parts that the same workers can take, fair between clients, under limits.

Clients are served in round robin by last service, over all lanes; a client that starts to wait goes
last. So while a part waits, the workers that could take it serve each other client at most once, or
as often as that client's weight says. A client's own parts go by priority, then by age. Parts with
a limit key stand apart by key, so that a key whose limit is reached never blocks another part. No
operation looks at all queued parts, except for a worker that refused the next one.
"""

from collections.abc import Callable, Collection, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from dragoman.core.jobs import JobPart
from dragoman.core.limiters import Limiters, Rule
from dragoman.model.capacity import Capacity
from dragoman.model.labels import Requirement
from dragoman.model.limit import Limit
from dragoman.model.names import PeerId, ServiceName, WorkerName
from dragoman.model.target import Labelled

#: Service, worker, labels, needs, balance, path, names of the limits of service and task.
LaneKey = tuple[
    ServiceName,
    WorkerName | None,
    str,
    Capacity | None,
    str,
    tuple[str, ...],
    tuple[str, ...],
]
#: (-priority, age, part index, entry id, part): a client's own order. Entry ids are unique.
QueueEntry = tuple[int, int, int, int, JobPart]
#: (turn of the client, entry): the order over all lanes.
Ranked = tuple[int, QueueEntry]
Suits = Callable[[JobPart], bool]

_SWEEP_ABOVE: Final = 64


class Turns:
    """Round robin: a turn number for each client with queued parts; the lowest is next."""

    def __init__(self) -> None:
        self.numbers: dict[PeerId, int] = {}
        self._waiting: dict[PeerId, int] = {}
        #: How often clients of a higher weight were served in their present turn.
        self._used: dict[PeerId, int] = {}
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
            self._used.pop(client, None)

    def served(self, client: PeerId, weight: int = 1) -> None:
        """Move a client to the last turn if it was served as often as its weight says."""
        if client not in self.numbers:
            return
        used = self._used.pop(client, 0) + 1
        if used < weight:
            self._used[client] = used
            return
        self._last += 1
        self.numbers[client] = self._last


class ClientHeaps:
    """Parts that the same workers can take under the same limits: a heap for each client."""

    def __init__(self, turns: Turns) -> None:
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
        part.entry_id, part.queued_client = entry_id, client
        self._size += 1

    def discard(self, part: JobPart) -> None:
        """Remove a part; its heap entry is removed later."""
        part.entry_id = 0
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
        head = self.head()
        if head is None or suits is None or suits(head[1][4]):
            return head
        # The next part does not suit this worker. Search all entries; this is rare.
        return min((r for r in self.ranked() if suits(r[1][4])), default=None)

    def head(self) -> Ranked | None:
        """Return the next part."""
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

    def ranked(self) -> Iterator[Ranked]:
        """Yield every part with its rank, in no particular order."""
        for client, heap in self._heaps.items():
            for entry in heap:
                if entry[4].entry_id == entry[3]:
                    yield self._turns.numbers[client], entry


class KeyedParts(ClientHeaps):
    """The parts of a lane that share one limit key, with the same numbers."""

    def __init__(self, turns: Turns, rule: Rule) -> None:
        super().__init__(turns)
        self.rules = (rule,)
        #: The part by which it stands in `KeyOrder`; None: it does not, its limit is reached.
        self.place: QueueEntry | None = None


class KeyOrder:
    """Keyed parts in the order of their next part: first by its client's turn.

    A key stands with the client whose part is next. If that client is served elsewhere, its turn
    changes, and the part of another client may be next: the key moves when it comes up. So no
    dispatch costs more for many keys, and a client waits at most one round longer.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._groups: dict[PeerId, list[tuple[QueueEntry, KeyedParts]]] = {}
        #: (turn when it was pushed, client); an outdated turn is corrected when it comes up.
        self._order: list[tuple[int, PeerId]] = []
        self._entries = 0

    def __bool__(self) -> bool:
        return bool(self._order)

    def place(self, parts: KeyedParts) -> None:
        """Let parts stand with their next part; an earlier place is outdated."""
        head = parts.head()
        if head is None:
            parts.place = None
            return
        turn, entry = head
        client, parts.place = entry[4].queued_client, entry
        group = self._groups.get(client)
        if group is None:
            group = self._groups[client] = []
            heappush(self._order, (turn, client))
        heappush(group, (entry, parts))
        self._entries += 1

    def sweep(self, keys: Collection[KeyedParts]) -> None:
        """Remove outdated places if they are many."""
        if self._entries > _SWEEP_ABOVE + 2 * len(keys):
            self._groups, self._order, self._entries = {}, [], 0
            for parts in keys:
                if parts.place is not None:
                    self.place(parts)

    def first(self, is_open: Callable[[KeyedParts], bool]) -> Ranked | None:
        """Return the next part of a key whose limit is not reached; drop the other keys."""
        order, groups, numbers = self._order, self._groups, self._turns.numbers
        while order:
            turn, client = order[0]
            group = groups[client]
            while group and group[0][1].place is not group[0][0]:
                self._pop(group)
            if not group:
                heappop(order)
                del groups[client]
            elif numbers[client] != turn:
                heapreplace(order, (numbers[client], client))
            elif (found := self._next(group, is_open)) is not None:
                return found
        return None

    def _next(
        self, group: list[tuple[QueueEntry, KeyedParts]], is_open: Callable[[KeyedParts], bool]
    ) -> Ranked | None:
        entry, parts = group[0]
        if not is_open(parts):
            self._pop(group)
            parts.place = None
            return None
        head = parts.head()
        if head is not None and head[1] is entry:
            return head
        self._pop(group)
        self.place(parts)
        return None

    def _pop(self, group: list[tuple[QueueEntry, KeyedParts]]) -> None:
        heappop(group)
        self._entries -= 1


class QueueLane:
    """Parts of one service that the same workers can take."""

    def __init__(self, part: JobPart, key: LaneKey, turns: Turns, limiters: Limiters) -> None:
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
        self._limiters = limiters
        #: The limits of its service and task.
        self.rules = limiters.rules_of_lane(part.service, part.task)
        for limiter, _ in self.rules:
            limiter.lanes[self] = None
        #: Parts without a limit key, and those with one.
        self._plain = ClientHeaps(turns)
        self._keyed: dict[tuple[str, Limit], KeyedParts] = {}
        self._order = KeyOrder(turns)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, part: JobPart, entry_id: int) -> None:
        """Queue a part. A part that was dispatched before keeps its age, so it goes first."""
        part.queued_in = self
        self._size += 1
        rule = self._limiters.rule_of_key(part)
        if rule is None:
            self._plain.push(part, entry_id)
            return
        limiter, limit = rule
        parts = self._keyed.get((limiter.name, limit))
        if parts is None:
            parts = self._keyed[limiter.name, limit] = KeyedParts(self._turns, rule)
            limiter.keyed[parts] = self
        parts.push(part, entry_id)
        head = parts.head()
        if parts.place is None or (head is not None and head[1][4] is part):
            self._order.place(parts)
            self._order.sweep(self._keyed.values())

    def reopen(self, parts: KeyedParts) -> None:
        """Consider parts again whose limit was reached."""
        if parts.place is None:
            self._order.place(parts)

    def discard(self, part: JobPart) -> None:
        """Remove a part."""
        part.queued_in = None
        self._size -= 1
        rule = self._limiters.rule_of_key(part)
        if rule is None:
            self._plain.discard(part)
            return
        limiter, limit = rule
        parts = self._keyed[limiter.name, limit]
        parts.discard(part)
        if parts.place is not None and parts.place[4] is part:
            self._order.place(parts)
        if not len(parts):
            del self._keyed[limiter.name, limit], limiter.keyed[parts]
            self._limiters.tidy(limiter)

    def close(self) -> None:
        """Forget an empty lane."""
        for limiter, _ in self.rules:
            del limiter.lanes[self]
            self._limiters.tidy(limiter)

    def first(self, now: float, suits: Suits | None = None) -> Ranked | None:
        """Return the next part that its limits let start, among those that suit."""
        if self.rules and not self._limiters.are_open(self.rules, now):
            return None
        found = self._plain.first(suits)
        if not self._order:
            return found
        other = self._first_keyed(now, suits)
        return min(found, other) if found and other else found or other

    def _first_keyed(self, now: float, suits: Suits | None) -> Ranked | None:
        found = self._order.first(lambda parts: self._limiters.are_open(parts.rules, now))
        if found is None or suits is None or suits(found[1][4]):
            return found
        return self._search_keyed(now, suits)

    def _search_keyed(self, now: float, suits: Suits) -> Ranked | None:
        """Search all keys. This is rare: the worker has refused the next part."""
        is_open = self._limiters.are_open
        found = (p.first(suits) for p in self._keyed.values() if is_open(p.rules, now))
        return min((rank for rank in found if rank is not None), default=None)

    def ranked(self) -> Iterator[Ranked]:
        """Yield every queued part with its rank, in no particular order."""
        for heaps in (self._plain, *self._keyed.values()):
            yield from heaps.ranked()

    def waiting(self) -> list[JobPart]:
        """Return every queued part, in no particular order."""
        return [entry[4] for _, entry in self.ranked()]
