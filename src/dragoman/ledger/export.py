"""Sealing: exports ranges of the ledger as Parquet segments, beside the running broker.

The order of steps is segment, manifest, checkpoint, so the process may be killed between any two of
them. An interrupted step leaves a temporary file or a segment that no manifest names; both are
removed at the next start and made again. Bodies are not exported.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from dragoman.ledger.atomic_file import make_folder, no_step_hook, rename_durably
from dragoman.ledger.base import Ledger, LedgerError
from dragoman.ledger.manifest import (
    TEMPORARY,
    Manifest,
    SealedSegment,
    read_manifest,
    segment_name,
    write_manifest,
)
from dragoman.ledger.segment_retention import read_positions, removable_segments
from dragoman.ledger.segment_writer import WriteDraft, in_this_process

CHECKPOINT: Final = "segments"  #: retention keeps records after this checkpoint
MIN_RECORDS: Final = 100_000  #: smaller segments are expensive for readers
MAX_RECORDS: Final = 500_000  #: in one segment, which is in memory while it is written
MAX_AGE: Final = 60.0  #: seconds after which a smaller segment is sealed anyway

log = structlog.get_logger(__name__)


class Sealer:
    """Seals a ledger's records into segments in a directory, in order, without gaps."""

    def __init__(
        self,
        ledger: Ledger,
        directory: str | Path,
        *,
        write: WriteDraft | None = None,
        max_records: int = MAX_RECORDS,
        clock: Callable[[], float] = time.time,
        step: Callable[[str], None] = no_step_hook,
    ) -> None:
        self.directory = Path(directory)
        self._ledger = ledger
        self._write = write or in_this_process(ledger)
        self._max_records = max_records
        self._clock = clock
        self._step = step  #: called before each disk operation, so that a test can stop there
        #: A seal on request may meet one of the background sealer.
        self._lock = threading.Lock()
        make_folder(self.directory)
        self._manifest = read_manifest(self.directory)
        self._require_whole()
        #: Whether a sealing was interrupted: it may have left files that no manifest names.
        self._is_interrupted = False
        self._sweep()
        self._ledger.checkpoint(CHECKPOINT, self._manifest.last)

    @property
    def manifest(self) -> Manifest:
        """The sealed segments."""
        return self._manifest

    def seal_once(
        self, min_records: int = MIN_RECORDS, max_age: float = MAX_AGE
    ) -> SealedSegment | None:
        """Seal one segment if enough records wait, or the oldest waits too long."""
        with self._lock:
            return self._seal_once(min_records, max_age)

    def _seal_once(self, min_records: int, max_age: float) -> SealedSegment | None:
        after = self._manifest.last
        waiting = self._ledger.last_seq - after
        if waiting <= 0 or (waiting < min_records and self._age(after) < max_age):
            return None
        if self._is_interrupted:
            self._sweep()
        self._is_interrupted = True
        segment = self._write_segment(after, min(waiting, self._max_records))
        grown = Manifest(segments=[*self._manifest.segments, segment])
        write_manifest(self.directory, grown, self._step)
        self._manifest = grown
        self._step("checkpoint")
        self._ledger.checkpoint(CHECKPOINT, segment.last)
        self._is_interrupted = False
        return segment

    def _write_segment(self, after: int, count: int) -> SealedSegment:
        self._step("write segment")
        draft, segment = self._write(self.directory, after, count)
        rename_durably(draft, self.directory / segment.file, self._step)
        return segment

    def remove_before(self, before_at: float) -> int:
        """Remove segments that are older and that every reader has read; return how many.

        The manifest is written first. Files that it no longer names are removed after that, or at
        the next start.
        """
        with self._lock:
            segments = self._manifest.segments
            positions = read_positions(self.directory).values()
            gone = removable_segments(segments, before_at, positions)
            if gone:
                shorter = Manifest(segments=segments[len(gone) :])
                write_manifest(self.directory, shorter, self._step)
                self._manifest = shorter
            for segment in gone:
                self._step("remove segment")
                (self.directory / segment.file).unlink(missing_ok=True)
            return len(gone)

    def _age(self, after: int) -> float:
        (oldest,) = self._ledger.rows(after, 1)
        return self._clock() - float(oldest[1])

    def _require_whole(self) -> None:
        """Refuse to start if readers would find a gap or a missing file."""
        sealed = self._manifest.last
        needed = self._ledger.checkpoints().get(CHECKPOINT, 0)
        if sealed < needed:
            raise LedgerError(
                f"{self.directory}: the manifest ends at {sealed}, but records up to {needed} "
                "were sealed: restore the manifest from a copy"
            )
        if sealed > self._ledger.last_seq:
            raise LedgerError(
                f"{self.directory}: sealed up to {sealed}, but the ledger ends at "
                f"{self._ledger.last_seq}: these segments belong to another ledger"
            )
        if self._ledger.first_seq > sealed + 1:
            raise LedgerError(
                f"{self.directory}: records {sealed + 1} to {self._ledger.first_seq - 1} are gone "
                "from the ledger and were never sealed: start a new directory"
            )

    def _sweep(self) -> None:
        """Remove the files of an interrupted sealing, or of an interrupted removal."""
        leftover = segment_name(self._manifest.last + 1, 0).rsplit("-", 1)[0]
        oldest = segment_name(self._manifest.first, 0).rsplit("-", 1)[0]
        named = {segment.file for segment in self._manifest.segments}
        drafts = list(self.directory.glob(f"*{TEMPORARY}"))
        orphans = [path for path in self.directory.glob("seg-*.parquet") if path.name not in named]
        for path in orphans:
            if not path.name.startswith(leftover) and path.name > oldest:
                raise LedgerError(
                    f"{path} is not in the manifest, and no interrupted sealing made it: move it"
                )
        for path in drafts + orphans:
            path.unlink()


class BackgroundSealer:
    """Runs a sealer in a thread at intervals, until it is stopped."""

    def __init__(
        self,
        sealer: Sealer,
        *,
        every: float = 5.0,
        min_records: int = MIN_RECORDS,
        max_age: float = MAX_AGE,
    ) -> None:
        self._sealer = sealer
        self._every = every
        self._limits = (min_records, max_age)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        #: Why the last run failed; empty: it did not. `on_change` is called when it changes.
        self.trouble = ""
        self.on_change: Callable[[str], None] = lambda trouble: None

    def start(self) -> "asyncio.Task[None]":
        """Start on the running event loop; return the task."""
        self._task = asyncio.create_task(self._run(), name="dragoman sealer")
        return self._task

    async def stop(self) -> None:
        """Stop after the current segment, if any. A task that has failed is no error here."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while not self._stopping.is_set():
            before = self.trouble
            has_more = await asyncio.to_thread(self._seal)
            if self.trouble != before:
                self.on_change(self.trouble)
            if not has_more:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._every):
                        await self._stopping.wait()

    def _seal(self) -> bool:
        """Seal once. Log a full disk or a damaged range; the next run tries again."""
        try:
            is_sealed = self._sealer.seal_once(*self._limits) is not None
            self.trouble = ""
            return is_sealed
        except (LedgerError, OSError) as error:
            self.trouble = str(error)
            log.error(
                "sealing failed; it is tried again",
                directory=str(self._sealer.directory),
                error=str(error),
            )
            return False
