"""The owner of a name: the principal that first proved it. Pure.

There are two kinds of names. *Peer* names are routing ids and node ids with their link: replies
are addressed to them. *Worker* names are chosen by workers. A name is free again when all keys of
its owner are revoked, which the caller decides.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from dragoman.model.names import PeerId, Principal, WorkerName, link_of, name_of

#: Peer names in memory; the oldest is forgotten first.
MOST_PEERS: Final = 200_000
#: Names on disk; further ones last as long as the process.
MOST_KEPT: Final = 50_000


class NameOwners:
    """Peer and worker names with their owners."""

    def __init__(self, is_gone: Callable[[Principal], bool] = lambda principal: False) -> None:
        self._is_gone = is_gone
        self._peers: OrderedDict[PeerId, Principal] = OrderedDict()
        self._workers: dict[WorkerName, Principal] = {}
        #: Names to be written to disk: `peer:` and `worker:` names with their owners.
        self.kept: dict[str, Principal] = {}
        self.is_dirty = False

    def restore(self, kept: Mapping[str, str]) -> None:
        """Load the names that an earlier process wrote."""
        for label, owner in kept.items():
            kind, _, name = label.partition(":")
            if kind == "peer":
                self._peers[PeerId(name)] = Principal(owner)
            elif kind == "worker":
                self._workers[WorkerName(name)] = Principal(owner)
            self.kept[label] = Principal(owner)

    def owner_of(self, peer: PeerId) -> Principal | None:
        """Return the owner of a peer name."""
        return self._peers.get(peer)

    def worker_owner(self, name: WorkerName) -> Principal | None:
        """Return the owner of a worker name."""
        return self._workers.get(name)

    def claim_peer(self, peer: PeerId, principal: Principal) -> Principal | None:
        """Give a peer name to a principal; return the owner if another principal has it."""
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
        """Give a worker name to a principal; return the owner if another principal has it.

        Names that workers chose are written to disk, with their peer. Names that the broker made up
        are not.
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
        """Return every peer name of a principal."""
        return [peer for peer, owner in self._peers.items() if owner == principal]

    def release(self, principals: Iterable[Principal]) -> None:
        """Free the names of some principals."""
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
        """Forget the oldest peer name that is not on disk."""
        for peer in self._peers:
            if f"peer:{peer}" not in self.kept:
                del self._peers[peer]
                return


def is_chosen(name: WorkerName, peer: PeerId, dialect: str) -> bool:
    """Tell whether the worker chose its name; the broker or the transport made up others."""
    return not name.startswith("0x") and dialect != "memo01" and link_of(peer) != "local"
