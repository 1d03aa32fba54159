"""Which worker owns which declared resource: rendezvous hashing, with weights and replicas.

For every resource each worker has a score, a number that depends on nothing but the two names and
the worker's weight; the highest scores own. So a worker that comes takes only what it has the
highest score for, and one that goes leaves only its own: nothing else moves, and a broker that
starts anew comes to the same result. Coming costs a score for each resource, going a score of each
worker for each resource that was its own.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from heapq import nlargest
from typing import Final

from dragoman.model.names import PeerId, WorkerName
from dragoman.model.value import field, value

_MASK: Final = (1 << 64) - 1
_FIRST: Final = 0xFF51AFD7ED558CCD
_SECOND: Final = 0xC4CEB9FE1A85EC53
_SPAN: Final = float(1 << 64)


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
    seed: int
    weight: float


def seed(name: str) -> int:
    """Return a number for a name, the same everywhere and always."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


def score(resource: int, member: int, weight: float) -> int:
    """Say how much a member wants a resource; twice the weight wins twice as often."""
    mixed = ((resource ^ member) * _FIRST) & _MASK
    mixed = ((mixed ^ (mixed >> 32)) * _SECOND) & _MASK
    return mixed if weight == 1.0 else _weighted(mixed, weight)


def _weighted(mixed: int, weight: float) -> int:
    """Weigh a uniform number u: u ** (1 / w) orders as w / -ln(u) does."""
    return int(((mixed + 0.5) / _SPAN) ** (1.0 / weight) * _SPAN)


class Distribution:
    """The declared resources of one service over its workers."""

    def __init__(self, names: Iterable[str] = (), replicas: int = 1) -> None:
        self.replicas = max(1, replicas)
        self._seeds = {name: seed(name) for name in names}
        self._members: dict[PeerId, Member] = {}
        #: Resource -> its owners with their scores, the highest first.
        self._owners: dict[str, list[tuple[int, PeerId]]] = {name: [] for name in self._seeds}
        #: What a score must exceed to own; -1: too few own it.
        self._floors: dict[str, int] = dict.fromkeys(self._seeds, -1)
        self._owned: dict[PeerId, set[str]] = {}

    def __len__(self) -> int:
        return len(self._seeds)

    def names(self) -> Iterable[str]:
        """Return what is declared."""
        return self._seeds.keys()

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
        member = self._members[peer] = Member(peer, seed(name), weight)
        self._owned[peer] = set()
        for resource, found in self._wanted(member):
            self._insert(resource, self._owners[resource], (found, peer), moves)
        return moves

    def _wanted(self, member: Member) -> list[tuple[str, int]]:
        """Return what a new member has a high enough score for. The hot loop of this module."""
        number, weight, floors = member.seed, member.weight, self._floors
        if weight != 1.0:
            scores = ((r, score(h, number, weight)) for r, h in self._seeds.items())
            return [(r, found) for r, found in scores if found > floors[r]]
        wanted = []
        for (resource, hashed), floor in zip(self._seeds.items(), floors.values(), strict=True):
            # `score` written out: a call costs more than the sum.
            mixed = ((hashed ^ number) * _FIRST) & _MASK
            mixed = ((mixed ^ (mixed >> 32)) * _SECOND) & _MASK
            if mixed > floor:
                wanted.append((resource, mixed))
        return wanted

    def _insert(
        self, resource: str, owners: list[tuple[int, PeerId]], new: tuple[int, PeerId],
        moves: Moves,
    ) -> None:  # fmt: skip
        owners.append(new)
        owners.sort(reverse=True)
        self._owned[new[1]].add(resource)
        moves.gained.setdefault(new[1], []).append(resource)
        if len(owners) > self.replicas:
            _, loser = owners.pop()
            self._owned[loser].discard(resource)
            moves.lost.setdefault(loser, []).append(resource)
        self._floors[resource] = owners[-1][0] if len(owners) == self.replicas else -1

    def leave(self, peer: PeerId) -> Moves:
        """Let a worker go; what it owned goes to those who want it most."""
        moves = Moves()
        if self._members.pop(peer, None) is None:
            return moves
        for resource in self._owned.pop(peer):
            self._owners[resource] = [o for o in self._owners[resource] if o[1] != peer]
            self._floors[resource] = -1
            self._refill(resource, moves)
        return moves

    def _refill(self, resource: str, moves: Moves) -> None:
        """Find owners for a resource that has too few."""
        owners, hashed = self._owners[resource], self._seeds[resource]
        have = {peer for _, peer in owners}
        wanting = [
            (score(hashed, m.seed, m.weight), m.peer)
            for m in self._members.values()
            if m.peer not in have
        ]
        for new in nlargest(self.replicas - len(owners), wanting):
            self._insert(resource, owners, new, moves)

    def declare(self, names: Iterable[str], replicas: int) -> Moves:
        """Change what is declared; what stays declared stays where it is if it can."""
        wanted, moves = {name: seed(name) for name in names}, Moves()
        if max(1, replicas) != self.replicas:
            self._withdraw(list(self._seeds), moves)
            self.replicas = max(1, replicas)
        self._withdraw([name for name in self._seeds if name not in wanted], moves)
        for name in wanted:
            if name not in self._seeds:
                self._seeds[name], self._owners[name], self._floors[name] = wanted[name], [], -1
                self._refill(name, moves)
        return _net(moves)

    def _withdraw(self, names: list[str], moves: Moves) -> None:
        for name in names:
            for _, peer in self._owners.pop(name):
                self._owned[peer].discard(name)
                moves.lost.setdefault(peer, []).append(name)
            del self._seeds[name], self._floors[name]


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
