"""Ledger maintenance beside the running broker: sealing for the pipeline, and retention.

While sealing is on, retention never removes unsealed records, nor segments that a pipeline has not
read. Records that an unfinished or remembered job needs are pinned: they stay, and the records
around them go.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from dragoman.ledger.base import Ledger, LedgerError, Needed
from dragoman.ledger.export import BackgroundSealer, Sealer
from dragoman.ledger.layout import SEALED_FOLDER
from dragoman.ledger.segment_writer import in_another_process
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.server.health import Health
from dragoman.server.settings import BrokerSettings, LedgerSection

log = structlog.get_logger("dragoman.upkeep")

_RETAIN_EVERY: Final = 60.0
#: How long to wait before a folder of segments that is not usable is tried again, in seconds.
_RETRY_EVERY: Final = 60.0
_DAY: Final = 86_400.0
#: The parts of the broker that troubles are reported for.
_SEALING: Final = "sealing"
_RETENTION: Final = "retention"


class LedgerMaintenance:
    """Runs sealing and retention until it is stopped; then seals the remaining records."""

    def __init__(
        self,
        ledger: Ledger,
        folder: Path,
        settings: LedgerSection,
        now: Callable[[], float],
        find_needed: Callable[[], Needed],
        health: Health | None = None,
        sealed_ledger: Ledger | None = None,
        ledger_file: Path | None = None,
    ) -> None:
        """Prepare.

        Args:
            ledger: what retention shortens.
            folder: the data folder; the segments get a folder in it.
            settings: how much is sealed and kept.
            now: the broker's clock.
            find_needed: tells which records a job needs.
            health: gets the troubles.
            sealed_ledger: the ledger as the sealer sees it; None: as it is.
            ledger_file: what the process that writes segments reads; None: they are written here.

        """
        self._ledger = ledger
        self._sealed_ledger = sealed_ledger or ledger
        self._settings = settings
        self._now = now
        self._find_needed = find_needed
        self._folder = folder / SEALED_FOLDER
        self._ledger_file = ledger_file
        self._sealer: Sealer | None = None
        self._sealing: BackgroundSealer | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._retaining: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        #: Set once the folder of segments was opened, or was found unusable.
        self._tried = asyncio.Event()
        #: Why sealing cannot start; empty: it can.
        self.trouble = ""
        self._health = health or Health(now)

    def sealed_seq(self) -> int | None:
        """Return the last record that is exported; None while nothing is exported."""
        return self._sealer.manifest.last if self._sealer is not None else None

    def start(self) -> None:
        """Start, on the running event loop."""
        self.start_sealing()
        self.start_retention()

    def start_sealing(self) -> None:
        """Start to seal. A standby does, too: it seals its own copy."""
        if self._settings.seal:
            self._beginning = asyncio.create_task(self._seal(), name="dragoman sealing")
            self._health.watch(self._beginning)

    def lead(
        self, now: Callable[[], float], find_needed: Callable[[], Needed], health: Health
    ) -> None:
        """Go on for a broker that serves now: with its clock and jobs, and with retention."""
        self._now, self._find_needed, self._health = now, find_needed, health
        health.note(_SEALING, self.trouble)
        self.start_retention()

    def start_retention(self) -> None:
        """Start to remove old records and segments. Only a leader does."""
        if self._settings.keep_days or self._settings.sealed_days:
            self._retaining = asyncio.create_task(self._retain(), name="dragoman retention")
            self._health.watch(self._retaining)

    async def _seal(self) -> None:
        """Start sealing; whatever happens, requests to seal do not wait for it for ever."""
        try:
            await self._begin_sealing()
        except Exception as error:  # it is logged and shown as the failure of this task
            self._note_sealing(str(error) or repr(error))
            raise
        finally:
            self._tried.set()

    async def _begin_sealing(self) -> None:
        """Open the folder, in a thread: a disk may be slow, and peers must not wait."""
        while (sealer := await asyncio.to_thread(self._open_sealer)) is None:
            self._tried.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_EVERY):
                    await self._stopping.wait()
                return
        self._sealer = sealer
        self._sealing = BackgroundSealer(
            sealer,
            every=min(5.0, self._settings.seal_age),
            min_records=self._settings.seal_records,
            max_age=self._settings.seal_age,
        )
        self._sealing.on_change = self._note_sealing
        self._health.watch(self._sealing.start())

    def _open_sealer(self) -> Sealer | None:
        """Open the folder of segments; None, with the reason in the log, if it is not usable."""
        try:
            sealer = _make_sealer(self._sealed_ledger, self._folder, self._ledger_file)
        except (LedgerError, OSError) as error:
            self._note_sealing(str(error))
            log.error(
                "sealing cannot start; no segment is exported until this is mended",
                folder=str(self._folder),
                error=str(error),
                retry_in_s=_RETRY_EVERY,
            )
            return None
        self._note_sealing("")
        return sealer

    def _note_sealing(self, trouble: str) -> None:
        self.trouble = trouble
        self._health.note(_SEALING, trouble)

    async def pause(self) -> None:
        """Stop without sealing the rest: a hand-over does not wait for it."""
        if self._retaining is not None:
            self._retaining.cancel()
            await asyncio.wait([self._retaining])
        if self._beginning is not None:
            self._stopping.set()
            await asyncio.wait([self._beginning])
        if self._sealing is not None:
            await self._sealing.stop()

    async def stop(self) -> None:
        """Stop; seal the records since the last segment."""
        await self.pause()
        if self._sealing is None or self._sealer is None:
            return
        try:
            await self.seal_now()
        except (LedgerError, OSError) as error:
            log.error("cannot seal the last records; the next start will", error=str(error))

    async def seal_now(self) -> int:
        """Seal every record; return the number of the last one. Raises LedgerError."""
        if not self._settings.seal:
            raise LedgerError("sealing is off; set `ledger.seal = true`")
        await self._tried.wait()
        if self._sealer is None:
            raise LedgerError(f"sealing cannot start: {self.trouble}")
        while await asyncio.to_thread(self._sealer.seal_once, 1, 0.0):
            pass
        return self._sealer.manifest.last

    async def _retain(self) -> None:
        while True:
            try:
                await self._retain_once()
            except (LedgerError, OSError) as error:
                log.error("retention failed; it runs again in a minute", error=str(error))
                self._health.note(_RETENTION, str(error))
            else:
                self._health.note(_RETENTION, "")
            await asyncio.sleep(_RETAIN_EVERY)

    async def _retain_once(self) -> None:
        """Remove old records, then old segments; 0 days of either: none."""
        now, settings = self._now(), self._settings
        if settings.keep_days:
            before = now - settings.keep_days * _DAY
            await self._ledger.retain(before_at=before, needed=self._find_needed())
        if settings.sealed_days and self._sealer is not None:
            before = now - settings.sealed_days * _DAY
            if count := await asyncio.to_thread(self._sealer.remove_before, before):
                log.info("old segments are removed", count=count, folder=str(self._folder))


def _make_sealer(ledger: Ledger, folder: Path, ledger_file: Path | None) -> Sealer:
    return Sealer(ledger, folder, write=in_another_process(ledger_file) if ledger_file else None)


def make_maintenance(
    ledger: SqliteLedger, settings: BrokerSettings, sealed: Ledger | None = None
) -> LedgerMaintenance:
    """Make the maintenance of a broker's ledger; `lead` tells it clock, jobs and health."""
    own, path = settings.ledger, ledger.path
    return LedgerMaintenance(
        ledger, settings.data, own, time.time, lambda: lambda record: False, None, sealed, path
    )
