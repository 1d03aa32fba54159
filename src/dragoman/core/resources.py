"""Which worker owns which declared resource: rendezvous hashing, with weights and replicas.

For every resource each worker has a score, a number that depends on nothing but the two names and
the worker's weight; the highest scores own. So a worker that comes takes only what it has the
highest score for, and one that goes leaves only its own: nothing else moves, and a broker that
starts anew comes to the same result. Coming costs a score for each resource, going a score of each
worker for each resource that was its own.

A score is a number of the worker's combined with one of the resource's by exclusive or. A worker
has many numbers, one for each *lane* of resources, so that no two workers are neighbours
everywhere. To score high, a resource's number must begin as the opposite of the worker's does, so
in a sorted lane the few that a newcomer can win lie together, and only they are looked at.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b, shake_128
from heapq import nlargest
from struct import unpack
from typing import Final

from dragoman.model.names import PeerId, WorkerName
from dragoman.model.value import field, value

LANES: Final = 256
_BITS: Final = 64
_MASK: Final = (1 << _BITS) - 1
_SPAN: Final = float(1 << _BITS)


@value
class Moves:
    """What changed hands: by worker, what it gained and what it lost."""

    gained: dict[PeerId, list[str]] = field(default_factory=dict)
    lost: dict[PeerId, list[str]] = field(default_factory=dict)

    def peers(self) -> list[PeerId]:
        """Return everybody whose share changed."""
        return list(dict.fromkeys([*self.gained, *self.lost]))


@value
class Member:
    """A worker that takes part."""

    peer: PeerId
    numbers: tuple[int, ...]
    weight: float


def seed(name: str) -> int:
    """Return a resource's number, the same everywhere and always."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


def numbers(name: str) -> tuple[int, ...]:
    """Return a worker's numbers, the same everywhere and always."""
    return unpack(f">{LANES}Q", shake_128(name.encode()).digest(8 * LANES))


def score(resource: int, member: Member) -> int:
    """Say how much a member wants a resource; twice the weight wins twice as often."""
    mixed = member.numbers[resource % LANES] ^ resource
    return mixed if member.weight == 1.0 else _weighted(mixed, member.weight)


def _weighted(mixed: int, weight: float) -> int:
    """Weigh a uniform number u: u ** (1 / w) orders as w / -ln(u) does."""
    return int(((mixed + 0.5) / _SPAN) ** (1.0 / weight) * _SPAN)


class ResourceBucket:
    """Resources that a worker has the same number for, in the order of their own numbers."""

    def __init__(self, found: list[tuple[int, str]]) -> None:
        found.sort()
        self.seeds = [number for number, _ in found]
        self.names = [name for _, name in found]
        #: What a score must exceed to own each; -1: too few own it.
        self.floors = [-1] * len(found)

    def wanted(self, number: int, weight: float) -> Iterator[tuple[str, int]]:
        """Yield what somebody with this number has a high enough score for. The hot loop."""
        first, end = self._hopeful(number, weight)
        for at in range(first, end):
            found = number ^ self.seeds[at]
            if weight != 1.0:
                found = _weighted(found, weight)
            if found > self.floors[at]:
                yield self.names[at], found

    def _hopeful(self, number: int, weight: float) -> tuple[int, int]:
        """Return where those lie that could reach the lowest floor."""
        floor = min(self.floors)
        if weight != 1.0 and floor > 0:
            # Somewhat less, for the weighing rounds.
            floor = int((floor / _SPAN) ** weight * _SPAN * (1.0 - 1e-9))
        # A number above the floor begins with as many ones as the floor does.
        free = _BITS if floor < 0 else (floor ^ _MASK).bit_length()
        lowest = (number ^ _MASK) >> free << free
        return bisect_left(self.seeds, lowest), bisect_left(self.seeds, lowest + (1 << free))


class Distribution:
    """The declared resources of one service over its workers."""

    def __init__(self, names: Iterable[str] = (), replicas: int = 1) -> None:
        self.replicas = max(1, replicas)
        self._members: dict[PeerId, Member] = {}
        self._owned: dict[PeerId, set[str]] = {}
        #: Resource -> its owners with their scores, the highest first.
        self._owners: dict[str, list[tuple[int, PeerId]]] = {name: [] for name in names}
        #: The lanes that are not empty, by number, and each resource's place.
        self._lanes: dict[int, ResourceBucket] = {}
        self._at: dict[str, tuple[ResourceBucket, int]] = {}
        self._line_up()

    def _line_up(self) -> None:
        """Put what is declared into lanes."""
        found: dict[int, list[tuple[int, str]]] = {}
        for name in self._owners:
            number = seed(name)
            found.setdefault(number % LANES, []).append((number, name))
        self._lanes = {number: ResourceBucket(those) for number, those in found.items()}
        for lane in self._lanes.values():
            self._at.update({name: (lane, at) for at, name in enumerate(lane.names)})
        for name in self._owners:
            self._set_floor(name)

    def _set_floor(self, resource: str) -> None:
        (lane, at), owners = self._at[resource], self._owners[resource]
        lane.floors[at] = owners[-1][0] if len(owners) == self.replicas else -1

    def __len__(self) -> int:
        return len(self._owners)

    def names(self) -> Iterable[str]:
        """Return what is declared."""
        return self._owners.keys()

    def owners(self, name: str) -> Sequence[PeerId]:
        """Return who owns a resource."""
        return [peer for _, peer in self._owners.get(name, ())]

    def owned(self, peer: PeerId) -> list[str]:
        """Return what a worker owns, in order."""
        return sorted(self._owned.get(peer, ()))

    def join(self, peer: PeerId, name: WorkerName, weight: float) -> Moves:
        """Let a worker take part; it takes what it has the highest score for."""
        known = self._members.get(peer)
        if known is not None and known.weight == weight:
            return Moves()
        moves = self.leave(peer) if known is not None else Moves()
        member = self._members[peer] = Member(peer, numbers(name), weight)
        self._owned[peer] = set()
        for at, lane in self._lanes.items():
            for resource, found in lane.wanted(member.numbers[at], weight):
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
        """Let a worker go; what it owned goes to those who want it most."""
        moves = Moves()
        if self._members.pop(peer, None) is None:
            return moves
        for resource in self._owned.pop(peer):
            self._owners[resource] = [o for o in self._owners[resource] if o[1] != peer]
            self._refill(resource, moves)
        return moves

    def _refill(self, resource: str, moves: Moves) -> None:
        """Find owners for a resource that has too few."""
        lane, at = self._at[resource]
        owners, number = self._owners[resource], lane.seeds[at]
        have = {peer for _, peer in owners}
        wanting = [(score(number, m), m.peer) for m in self._members.values() if m.peer not in have]
        for new in nlargest(self.replicas - len(owners), wanting):
            self._insert(resource, new, moves)
        self._set_floor(resource)

    def declare(self, names: Iterable[str], replicas: int) -> Moves:
        """Change what is declared; what stays declared stays where it is if it can."""
        wanted, moves = dict.fromkeys(names), Moves()
        if max(1, replicas) != self.replicas:
            self._withdraw(list(self._owners), moves)
            self.replicas = max(1, replicas)
        self._withdraw([name for name in self._owners if name not in wanted], moves)
        new = [name for name in wanted if name not in self._owners]
        self._owners.update({name: [] for name in new})
        self._line_up()
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
    """Leave out what went and came back."""
    gained = {p: set(names) for p, names in moves.gained.items()}
    lost = {p: set(names) for p, names in moves.lost.items()}
    net = Moves()
    for peer in moves.peers():
        came, went = gained.get(peer, set()), lost.get(peer, set())
        if came - went:
            net.gained[peer] = sorted(came - went)
        if went - came:
            net.lost[peer] = sorted(went - came)
    return net
