"""Notices that a nats-server has stopped to store, and has it started again when there is room.

A nats-server whose disk is full gives up a stream, or all of JetStream. It runs on, and stores
nothing more when there is room again: only a new process does (seen with 2.15.1). Until then its
node counts for no majority, so that the loss of one more node stops the cluster.
"""

import asyncio
import logging
import re
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

#: What its log says when it gives up.
_GIVES_UP: Final = re.compile(rb"critical write error|will be disabled|disabling jetstream", re.I)
#: Free bytes of the disk that a new process needs.
ROOM: Final = 32 * 2**20
#: Seconds between two looks at the disk, and at least between two restarts.
_LOOK_EVERY: Final = 0.5
_RESTART_EVERY: Final = 10.0


class NatsStorage:
    """The storage of one supervised nats-server; `restart` ends its process."""

    def __init__(self, folder: Path, restart: Callable[[], Awaitable[None]]) -> None:
        self._folder = folder
        self._restart = restart
        self._restarted_at = -_RESTART_EVERY
        self._mending: asyncio.Task[None] | None = None

    def read(self, line: bytes) -> None:
        """Read a line of the server's log."""
        if self._mending is None and _GIVES_UP.search(line):
            log.error(
                "nats-server cannot write, and stores nothing until it is started again, which"
                " happens when there is room: free some space on the disk of %s",
                self._folder,
            )
            self._mending = asyncio.create_task(self._mend(), name="dragoman nats-server storage")

    async def _mend(self) -> None:
        try:
            is_ready = False
            while not is_ready:
                await asyncio.sleep(_LOOK_EVERY)
                is_ready = self._is_time() and self._has_room()
            self._restarted_at = time.monotonic()
            log.warning("there is room on the disk of %s: nats-server starts again", self._folder)
            await self._restart()
        finally:
            self._mending = None

    def _is_time(self) -> bool:
        return time.monotonic() - self._restarted_at >= _RESTART_EVERY

    def _has_room(self) -> bool:
        return shutil.disk_usage(self._folder).free >= ROOM

    async def close(self) -> None:
        """Look no more."""
        if self._mending is not None:
            self._mending.cancel()
            with suppress(asyncio.CancelledError):
                await self._mending
