"""When to write a snapshot: after so many records, but never most of the time.

Snapshots are written by another process (`snapshot_process`); this module only starts and watches
it. A snapshot costs time for every open job. So the pause after one is some times as long as it
took, and an idle broker writes none.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import structlog

from dragoman.core.limits import Limits
from dragoman.server.health import Health
from dragoman.server.snapshot_process import DAMAGED

log = structlog.get_logger("dragoman.snapshots")

#: Records after the last snapshot that a start may have to replay: about two seconds of it.
EVERY_RECORDS: Final = 200_000
_LOOK_EVERY: Final = 5.0
#: The pause after a snapshot, as a multiple of the time that it took.
_PAUSE: Final = 4.0


class GrowingLedger(Protocol):
    """What the schedule needs of a ledger."""

    @property
    def last_seq(self) -> int:
        """The newest durable record."""
        ...


class BackgroundSnapshots:
    """Starts the process that writes snapshots, when it is time."""

    def __init__(
        self,
        ledger: GrowingLedger,
        data: Path,
        limits: Limits,
        covered: int,
        *,
        is_checked: bool = True,
        every: int = EVERY_RECORDS,
        look_every: float = _LOOK_EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Plan snapshots.

        Args:
            ledger: its newest record decides when a snapshot is due.
            data: the data folder.
            limits: how many finished jobs a start keeps, and for how long.
            covered: the last record of the snapshot that the start used.
            is_checked: whether the start checked the whole file; if not, the first run does.
            every: records between two snapshots.
            look_every: seconds between two looks at the ledger.
            clock: a clock that never goes back.

        """
        self._ledger = ledger
        self._limits = limits
        self._data = data
        self._covered = covered
        self._is_checked = is_checked
        self._every = every
        self._look_every = look_every
        self._clock = clock
        self._not_before = 0.0
        self._task: asyncio.Task[None] | None = None
        self._health: Health | None = None

    def start(self, health: Health | None = None) -> None:
        """Start, on the running event loop; report to `health`."""
        self._health = health
        self._task = asyncio.create_task(self._run(), name="dragoman snapshots")
        if health is not None:
            health.watch(self._task)

    async def stop(self) -> None:
        """Stop, and end the process if it runs."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @property
    def is_due(self) -> bool:
        """Whether a snapshot should be written now."""
        is_long = self._ledger.last_seq - self._covered >= self._every
        return (is_long or not self._is_checked) and self._clock() >= self._not_before

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._look_every)
            if self.is_due:
                try:
                    await self._write()
                except OSError as error:
                    log.warning("cannot start the process that writes snapshots", error=str(error))

    async def _write(self) -> None:
        began, upto = self._clock(), self._ledger.last_seq
        code, said = await self._run_process()
        took = self._clock() - began
        self._not_before = self._clock() + _PAUSE * took
        if code == 0:
            self._covered, self._is_checked = upto, True
            log.info("snapshot written", records=upto, seconds=round(took, 1))
        elif code == DAMAGED:
            self._is_checked = True
            if self._health is not None:
                self._health.report("ledger check", "the ledger is damaged", said)
            log.error(
                "a check of the ledger in the background found damage",
                error=said,
                hint="run `dragoman ledger verify`; `dragoman ledger repair` saves what is sound",
            )
        else:
            log.warning("no snapshot was written; it is tried again", error=said, exit_code=code)

    async def _run_process(self) -> tuple[int, str]:
        limits = self._limits
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dragoman.server.snapshot_process", str(self._data)),
            *(str(limits.finished_jobs), str(limits.retention)),
            "checked" if self._is_checked else "check",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, said = await process.communicate()
        except asyncio.CancelledError:
            # It may have ended this moment. An error here would take the place of the cancellation,
            # and `stop` would wait for ever.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        return process.returncode or 0, said.decode(errors="replace").strip()[-500:]
