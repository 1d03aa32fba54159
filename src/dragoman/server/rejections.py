"""Limits the records of bad input from one peer.

The first rejections in each window are recorded; the rest are only counted, so that bad input
cannot fill the ledger.
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
    """Counts rejections by peer, for the most recent peers."""

    def __init__(self) -> None:
        self.total = 0
        #: Rejections that were not recorded.
        self.unrecorded = 0
        self._peers: OrderedDict[PeerId, tuple[float, int]] = OrderedDict()

    def is_over_limit(self, noted: Noted, now: float) -> bool:
        """Count a rejection of a link or its side; tell whether it is over the record limit."""
        if noted.kind is not Kind.REJECTED or noted.peer is None:
            return False
        return not self.should_record(noted.peer, now)

    def should_record(self, peer: PeerId, now: float) -> bool:
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
