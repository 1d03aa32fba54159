"""Which worker owns which declared resource: rendezvous hashing, with weights and replicas.

Each pair of worker and resource has a score that depends only on their names and the worker's
weight. The workers with the highest scores own the resource. So a worker that joins takes only what
it scores highest for, one that leaves frees only its own, and a restarted broker computes the same
result. A join costs at most one score per resource; a leave costs one score per worker for each
resource it owned.

A score is the exclusive or of a number of the worker and one of the resource. A worker has one
number for each *bucket* of resources, so that no two workers are neighbours in all buckets. A score
is high if the resource's number starts as the complement of the worker's. So in a sorted bucket the
resources that a new worker can win are adjacent, and only they are compared.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b, shake_128
from heapq import nlargest
from struct import unpack
from typing import Final

from dragoman.model.names import PeerId, WorkerName
from dragoman.model.value import field, value

BUCKETS: Final = 256
_BITS: Final = 64
_MASK: Final = (1 << _BITS) - 1
_SPAN: Final = float(1 << _BITS)


@value
class Moves:
    """Resources that each worker gained and lost."""

    gained: dict[PeerId, list[str]] = field(default_factory=dict)
    lost: dict[PeerId, list[str]] = field(default_factory=dict)

    def peers(self) -> list[PeerId]:
        """Return the workers whose resources changed."""
        return list(dict.fromkeys([*self.gained, *self.lost]))


@value
class Member:
    """A worker in a distribution."""

    peer: PeerId
    numbers: tuple[int, ...]
    weight: float


def seed(name: str) -> int:
    """Return a resource's number, the same everywhere and always."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


def numbers(name: str) -> tuple[int, ...]:
    """Return a worker's numbers, the same everywhere and always."""
    return unpack(f">{BUCKETS}Q", shake_128(name.encode()).digest(8 * BUCKETS))


def score(resource: int, member: Member) -> int:
    """Return the score of a member for a resource; twice the weight wins twice as often."""
    mixed = member.numbers[resource % BUCKETS] ^ resource
    return mixed if member.weight == 1.0 else _weighted(mixed, member.weight)


def _weighted(mixed: int, weight: float) -> int:
    """Apply a weight to a uniform number u: u ** (1 / w) orders as w / -ln(u) does."""
    return int(((mixed + 0.5) / _SPAN) ** (1.0 / weight) * _SPAN)


class ResourceBucket:
    """Resources for which a worker has the same number, sorted by their own numbers."""

    def __init__(self, found: list[tuple[int, str]]) -> None:
        found.sort()
        self.seeds = [number for number, _ in found]
        self.names = [name for _, name in found]
        #: The score to exceed for each; -1: the resource has too few owners.
        self.floors = [-1] * len(found)

    def wanted(self, number: int, weight: float) -> Iterator[tuple[str, int]]:
        """Yield the resources that a worker with this number wins. The hot loop."""
        first, end = self._reachable_range(number, weight)
        for at in range(first, end):
            found = number ^ self.seeds[at]
            if weight != 1.0:
                found = _weighted(found, weight)
            if found > self.floors[at]:
                yield self.names[at], found

    def _reachable_range(self, number: int, weight: float) -> tuple[int, int]:
        """Return the index range of resources that could exceed the lowest floor."""
        floor = min(self.floors)
        if weight != 1.0 and floor > 0:
            # Slightly less, because `_weighted` rounds.
            floor = int((floor / _SPAN) ** weight * _SPAN * (1.0 - 1e-9))
        # A score above the floor starts with at least as many ones as the floor.
        free = _BITS if floor < 0 else (floor ^ _MASK).bit_length()
        lowest = (number ^ _MASK) >> free << free
        return bisect_left(self.seeds, lowest), bisect_left(self.seeds, lowest + (1 << free))


class Distribution:
    """The declared resources of one service over its workers."""

    def __init__(self, names: Iterable[str] = (), replicas: int = 1) -> None:
        self.replicas = max(1, replicas)
        self._members: dict[PeerId, Member] = {}
        self._owned: dict[PeerId, set[str]] = {}
        #: Resource -> (score, owner), highest score first.
        self._owners: dict[str, list[tuple[int, PeerId]]] = {name: [] for name in names}
        #: Non-empty buckets by number; each resource's bucket and index.
        self._buckets: dict[int, ResourceBucket] = {}
        self._at: dict[str, tuple[ResourceBucket, int]] = {}
        self._fill_buckets()

    def _fill_buckets(self) -> None:
        """Sort the declared resources into buckets."""
        found: dict[int, list[tuple[int, str]]] = {}
        for name in self._owners:
            number = seed(name)
            found.setdefault(number % BUCKETS, []).append((number, name))
        self._buckets = {number: ResourceBucket(those) for number, those in found.items()}
        for bucket in self._buckets.values():
            self._at.update({name: (bucket, at) for at, name in enumerate(bucket.names)})
        for name in self._owners:
            self._set_floor(name)

    def _set_floor(self, resource: str) -> None:
        (bucket, at), owners = self._at[resource], self._owners[resource]
        bucket.floors[at] = owners[-1][0] if len(owners) == self.replicas else -1

    def __len__(self) -> int:
        return len(self._owners)

    def names(self) -> Iterable[str]:
        """Return the declared resources."""
        return self._owners.keys()

    def owners(self, name: str) -> Sequence[PeerId]:
        """Return the owners of a resource."""
        return [peer for _, peer in self._owners.get(name, ())]

    def owned(self, peer: PeerId) -> list[str]:
        """Return the resources of a worker, sorted."""
        return sorted(self._owned.get(peer, ()))

    def join(self, peer: PeerId, name: WorkerName, weight: float) -> Moves:
        """Add a worker; it takes the resources it has the highest score for."""
        known = self._members.get(peer)
        if known is not None and known.weight == weight:
            return Moves()
        moves = self.leave(peer) if known is not None else Moves()
        member = self._members[peer] = Member(peer, numbers(name), weight)
        self._owned[peer] = set()
        for at, bucket in self._buckets.items():
            for resource, found in bucket.wanted(member.numbers[at], weight):
                self._insert(resource, (found, peer), moves)
        return moves

    def _insert(self, resource: str, new: tuple[int, PeerId], moves: Moves) -> None:
        owners = self._owners[resource]
        owners.append(new)
        owners.sort(reverse=True)
        self._owned[new[1]].add(resource)
        moves.gained.setdefault(new[1], []).append(resource)
        if len(owners) > self.replicas:
            _, loser = owners.pop()
            self._owned[loser].discard(resource)
            moves.lost.setdefault(loser, []).append(resource)
        self._set_floor(resource)

    def leave(self, peer: PeerId) -> Moves:
        """Remove a worker; its resources go to the next highest scores."""
        moves = Moves()
        if self._members.pop(peer, None) is None:
            return moves
        for resource in self._owned.pop(peer):
            self._owners[resource] = [o for o in self._owners[resource] if o[1] != peer]
            self._refill(resource, moves)
        return moves

    def _refill(self, resource: str, moves: Moves) -> None:
        """Find owners for a resource with too few."""
        bucket, at = self._at[resource]
        owners, number = self._owners[resource], bucket.seeds[at]
        have = {peer for _, peer in owners}
        scores = [(score(number, m), m.peer) for m in self._members.values() if m.peer not in have]
        for new in nlargest(self.replicas - len(owners), scores):
            self._insert(resource, new, moves)
        self._set_floor(resource)

    def declare(self, names: Iterable[str], replicas: int) -> Moves:
        """Replace the declared resources; unchanged resources keep their owners if possible."""
        wanted, moves = dict.fromkeys(names), Moves()
        if max(1, replicas) != self.replicas:
            self._withdraw(list(self._owners), moves)
            self.replicas = max(1, replicas)
        self._withdraw([name for name in self._owners if name not in wanted], moves)
        new = [name for name in wanted if name not in self._owners]
        self._owners.update({name: [] for name in new})
        self._fill_buckets()
        for name in new:
            self._refill(name, moves)
        return _net(moves)

    def _withdraw(self, names: list[str], moves: Moves) -> None:
        for name in names:
            del self._at[name]
            for _, peer in self._owners.pop(name):
                self._owned[peer].discard(name)
                moves.lost.setdefault(peer, []).append(name)


def _net(moves: Moves) -> Moves:
    """Remove moves that cancel each other out."""
    gained = {p: set(names) for p, names in moves.gained.items()}
    lost = {p: set(names) for p, names in moves.lost.items()}
    net = Moves()
    for peer in moves.peers():
        won, lost_names = gained.get(peer, set()), lost.get(peer, set())
        if won - lost_names:
            net.gained[peer] = sorted(won - lost_names)
        if lost_names - won:
            net.lost[peer] = sorted(lost_names - won)
    return net
