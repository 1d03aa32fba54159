"""Whose a name is: the principal's that first proved it. Pure.

Two kinds of names are kept apart. *Peers* are routing ids, node ids and the like, with their link:
replies go where they say. *Workers* are what workers call themselves. A name is free again
when its owner may never speak again (all its keys were revoked), which the caller says.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from dragoman.model.names import PeerId, Principal, WorkerName, link_of, name_of

#: Peers that are remembered; the one that has been known for longest goes first.
MOST_PEERS: Final = 200_000
#: Names that are kept for ever; beyond that they are kept while the process lives.
MOST_KEPT: Final = 50_000


class NameOwners:
    """Peers and workers by name, each with its owner."""

    def __init__(self, is_gone: Callable[[Principal], bool] = lambda principal: False) -> None:
        self._is_gone = is_gone
        self._peers: OrderedDict[PeerId, Principal] = OrderedDict()
        self._workers: dict[WorkerName, Principal] = {}
        #: What is to outlive this process: `peer:` and `worker:` names with their owners.
        self.kept: dict[str, Principal] = {}
        self.is_dirty = False

    def restore(self, kept: Mapping[str, str]) -> None:
        """Know again what an earlier process kept."""
        for label, owner in kept.items():
            kind, _, name = label.partition(":")
            if kind == "peer":
                self._peers[PeerId(name)] = Principal(owner)
            elif kind == "worker":
                self._workers[WorkerName(name)] = Principal(owner)
            self.kept[label] = Principal(owner)

    def owner_of(self, peer: PeerId) -> Principal | None:
        """Return whose a peer's name is."""
        return self._peers.get(peer)

    def worker_owner(self, name: WorkerName) -> Principal | None:
        """Return whose a worker's name is."""
        return self._workers.get(name)

    def claim_peer(self, peer: PeerId, principal: Principal) -> Principal | None:
        """Let a principal speak as a peer; return the owner instead if that is another."""
        owner = self._peers.get(peer)
        if owner == principal:
            return None
        if owner is not None and not self._is_gone(owner):
            return owner
        self._peers[peer] = principal
        if len(self._peers) > MOST_PEERS:
            self._forget_one()
        return None

    def claim_worker(
        self, name: WorkerName, peer: PeerId, principal: Principal, *, is_chosen: bool
    ) -> Principal | None:
        """Let a principal's worker have a name; return the owner instead if that is another.

        Names that the worker chose are kept for good, with the peer they were said from; those the
        broker made up are not worth keeping.
        """
        owner = self._workers.get(name)
        if owner is not None and owner != principal and not self._is_gone(owner):
            return owner
        self._workers[name] = principal
        if is_chosen and len(self.kept) < MOST_KEPT:
            self._keep(f"worker:{name}", principal)
            if not name_of(peer).startswith("0x"):
                self._keep(f"peer:{peer}", principal)
        return None

    def peers_of(self, principal: Principal) -> list[PeerId]:
        """Return every peer that spoke for a principal."""
        return [peer for peer, owner in self._peers.items() if owner == principal]

    def release(self, principals: Iterable[Principal]) -> None:
        """Make the names of principals free."""
        gone = set(principals)
        for peer in [p for p, owner in self._peers.items() if owner in gone]:
            del self._peers[peer]
        for worker in [w for w, owner in self._workers.items() if owner in gone]:
            del self._workers[worker]
        for label in [n for n, owner in self.kept.items() if owner in gone]:
            del self.kept[label]
            self.is_dirty = True

    def _keep(self, label: str, principal: Principal) -> None:
        if self.kept.get(label) != principal:
            self.kept[label] = principal
            self.is_dirty = True

    def _forget_one(self) -> None:
        """Let go of the oldest peer that need not be kept."""
        for peer in self._peers:
            if f"peer:{peer}" not in self.kept:
                del self._peers[peer]
                return


def is_chosen(name: WorkerName, peer: PeerId, dialect: str) -> bool:
    """Tell whether a worker chose its name, or had it made up by the broker or its transport."""
    return not name.startswith("0x") and dialect != "memo01" and link_of(peer) != "local"
