"""Ledger maintenance beside the running broker: sealing for the pipeline, and retention.

While sealing is on, retention never removes unsealed records. It never removes records that an
unfinished or remembered job needs.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from dragoman.ledger.base import Ledger, LedgerError
from dragoman.ledger.layout import SEALED_FOLDER
from dragoman.server.settings import LedgerSection

if TYPE_CHECKING:
    from dragoman.ledger.export import BackgroundSealer, Sealer

log = structlog.get_logger("dragoman.upkeep")

_RETAIN_EVERY: Final = 60.0
#: How long to wait before a folder of segments that is not usable is tried again, in seconds.
_RETRY_EVERY: Final = 60.0
_DAY: Final = 86_400.0


class LedgerMaintenance:
    """Runs sealing and retention until it is stopped; then seals the remaining records."""

    def __init__(
        self,
        ledger: Ledger,
        folder: Path,
        settings: LedgerSection,
        now: Callable[[], float],
        oldest_needed: Callable[[], int],
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._now = now
        self._oldest_needed = oldest_needed
        self._folder = folder / SEALED_FOLDER
        self._sealer: Sealer | None = None
        self._sealing: BackgroundSealer | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._retaining: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        #: Why sealing cannot start; empty: it can.
        self.trouble = ""

    def start(self) -> None:
        """Start, on the running event loop."""
        if self._settings.seal:
            self._beginning = asyncio.create_task(self._seal(), name="dragoman sealing")
        if self._settings.keep_days:
            self._retaining = asyncio.create_task(self._retain(), name="dragoman retention")

    async def _seal(self) -> None:
        """Start sealing. The Parquet library takes a second to load; peers must not wait for it."""
        while (sealer := await asyncio.to_thread(self._open_sealer)) is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _RETRY_EVERY)
                return
        self._sealer = sealer
        from dragoman.ledger.export import BackgroundSealer

        self._sealing = BackgroundSealer(
            sealer,
            every=min(5.0, self._settings.seal_age),
            min_records=self._settings.seal_records,
            max_age=self._settings.seal_age,
        )
        self._sealing.start()

    def _open_sealer(self) -> "Sealer | None":
        """Open the folder of segments; None, with the reason in the log, if it is not usable."""
        try:
            sealer = _make_sealer(self._ledger, self._folder)
        except (LedgerError, OSError) as error:
            self.trouble = str(error)
            log.error(
                "sealing cannot start; no segment is exported until this is mended",
                folder=str(self._folder),
                error=str(error),
                retry_in_s=_RETRY_EVERY,
            )
            return None
        self.trouble = ""
        return sealer

    async def stop(self) -> None:
        """Stop; seal the records since the last segment."""
        if self._retaining is not None:
            self._retaining.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._retaining
        if self._beginning is not None:
            self._stopping.set()
            await self._beginning
        if self._sealing is None or self._sealer is None:
            return
        await self._sealing.stop()
        try:
            while await asyncio.to_thread(self._sealer.seal_once, 1, 0.0):
                pass
        except (LedgerError, OSError) as error:
            log.error("cannot seal the last records; the next start will", error=str(error))

    async def _retain(self) -> None:
        while True:
            before = self._now() - self._settings.keep_days * _DAY
            try:
                await self._ledger.retain(before_at=before, protected_seq=self._oldest_needed())
            except (LedgerError, OSError) as error:
                log.error("retention failed; it runs again in a minute", error=str(error))
            await asyncio.sleep(_RETAIN_EVERY)


def _make_sealer(ledger: Ledger, folder: Path) -> "Sealer":
    from dragoman.ledger.export import Sealer

    return Sealer(ledger, folder)
