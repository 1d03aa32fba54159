"""The ledger as the sealer of one node of a cluster sees it.

Each node has its own folder of segments and seals its own copy, as a standby or as the leader. So
every folder has every record once, whoever leads. The checkpoint is the same for all nodes, so it
says nothing about the folder of this one: the sealer relies on its manifest, and begins with the
oldest kept record if it has none. Only the leader moves the checkpoint.
"""

from collections.abc import Callable
from typing import Any

from dragoman.ledger.base import Ledger


class NodeSegments:
    """Passes everything on but checkpoints: those only move forward, and are not read."""

    #: Whether older records were removed shows when they are read.
    first_seq = 1

    def __init__(self, ledger: Ledger, is_leading: Callable[[], bool] = lambda: True) -> None:
        self._ledger = ledger
        self._is_leading = is_leading

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def checkpoints(self) -> dict[str, int]:
        """Return nothing: the segments of other nodes do not matter here."""
        return {}

    def checkpoint(self, name: str, seq: int) -> None:
        """Move a checkpoint forward, as the leader."""
        if self._is_leading() and seq > self._ledger.checkpoints().get(name, -1):
            self._ledger.checkpoint(name, seq)
