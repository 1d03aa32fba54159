"""Watches whether the ledger can be written while nothing is written.

Without traffic no write fails, so a full disk or a deleted folder would stay unseen.
"""

import asyncio
import itertools
from typing import Final

from dragoman.ledger.base import LedgerUnwritable
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.server.loop import Loop

_EVERY: Final = 1.0
#: One in so many checks writes to the disk, and each while the ledger fails.
_THOROUGH_EVERY: Final = 5


class LedgerWatch:
    """Checks the ledger's files and disk every second, and reports to the loop."""

    def __init__(self, ledger: SqliteLedger, loop: Loop) -> None:
        self._ledger = ledger
        self._loop = loop
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, on the running event loop."""
        self._task = asyncio.create_task(self._watch(), name="dragoman ledger watch")
        self._loop.health.watch(self._task)

    async def stop(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        for number in itertools.count():
            await self.check(is_thorough=not number % _THOROUGH_EVERY)
            await asyncio.sleep(_EVERY)

    async def check(self, is_thorough: bool = True) -> None:
        """Check once. While a write waits to be repeated, that write is the check."""
        if self._loop.is_retrying:
            return
        is_thorough = is_thorough or self._loop.is_ledger_failing
        try:
            await asyncio.to_thread(self._ledger.require_writable, is_thorough)
        except LedgerUnwritable as error:
            self._loop.ledger_failed(error)
        else:
            if not self._loop.is_retrying:
                self._loop.ledger_works()
