"""How much bad input goes on record: all of it, until a peer makes a flood of it.

The first of each window are recorded one by one; the rest are counted, so that garbage cannot
fill the ledger.
"""

from collections import OrderedDict
from typing import Final

from dragoman.core.events import Noted
from dragoman.model.names import PeerId
from dragoman.model.record import Kind

WINDOW: Final = 10.0
PER_WINDOW: Final = 20
_PEERS: Final = 10_000


class Rejections:
    """Counts bad input by peer; remembers the last peers only."""

    def __init__(self) -> None:
        self.total = 0
        #: Rejections that were counted but not recorded.
        self.unrecorded = 0
        self._peers: OrderedDict[PeerId, tuple[float, int]] = OrderedDict()

    def is_too_much(self, noted: Noted, now: float) -> bool:
        """Count what a link or its side turned away; tell whether it is one too many to record."""
        if noted.kind is not Kind.REJECTED or noted.peer is None:
            return False
        return not self.is_worth_a_record(noted.peer, now)

    def is_worth_a_record(self, peer: PeerId, now: float) -> bool:
        """Count one rejection; tell whether it should be recorded."""
        self.total += 1
        since, count = self._peers.pop(peer, (now, 0))
        if now - since > WINDOW:
            since, count = now, 0
        self._peers[peer] = (since, count + 1)
        if len(self._peers) > _PEERS:
            self._peers.popitem(last=False)
        if count >= PER_WINDOW:
            self.unrecorded += 1
            return False
        return True
