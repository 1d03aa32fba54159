"""Snapshots beside the running broker: when they are due, and what a failure says."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
from tests.ledger.entries import entries

from dragoman.core.limits import Limits
from dragoman.ledger.layout import LEDGER_FILE
from dragoman.ledger.snapshots import SNAPSHOT_FILE, FileSnapshots
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.server.background_snapshots import BackgroundSnapshots
from dragoman.server.health import Health
from dragoman.server.snapshot_process import DAMAGED, FAILED


class Growing:
    last_seq = 0


class Scripted(BackgroundSnapshots):
    """Runs no process: takes its time and its end from the test."""

    now = 100.0
    took = 0.0
    ended: tuple[int, str] = (0, "")

    def __init__(self, ledger: Growing, **more: Any) -> None:
        super().__init__(ledger, Path(), Limits(), 0, every=10, clock=lambda: self.now, **more)

    async def _run_process(self) -> tuple[int, str]:
        self.now += self.took
        return self.ended

    def write(self) -> list[Any]:
        with structlog.testing.capture_logs() as logs:
            asyncio.run(self._write())
        return logs


def test_one_is_due_after_so_many_records() -> None:
    ledger = Growing()
    snapshots = Scripted(ledger)
    due = []
    for ledger.last_seq in (9, 10, 19, 20):
        due.append(snapshots.is_due)
        if snapshots.is_due:
            snapshots.write()
            due.append(snapshots.is_due)
    assert due == [False, True, False, False, True, False]


def test_the_pause_after_one_is_four_times_as_long_as_it_took() -> None:
    ledger = Growing()
    ledger.last_seq = 10
    snapshots = Scripted(ledger)
    snapshots.took = 5.0
    snapshots.write()
    ledger.last_seq = 1000
    snapshots.now += 19
    assert not snapshots.is_due
    snapshots.now += 1
    assert snapshots.is_due


def test_a_file_that_the_start_did_not_check_is_checked_at_once() -> None:
    snapshots = Scripted(Growing(), is_checked=False)
    assert snapshots.is_due
    snapshots.write()
    assert not snapshots.is_due


def test_damage_that_the_check_finds_is_an_error_with_a_hint() -> None:
    snapshots = Scripted(Growing(), is_checked=False)
    health = snapshots._health = Health(lambda: 1.0)
    snapshots.ended = (DAMAGED, "records 3 to 4 are damaged")
    [line] = snapshots.write()
    assert line["log_level"] == "error"
    assert "dragoman ledger verify" in line["hint"]
    [trouble] = health.troubles()
    assert trouble.detail == "records 3 to 4 are damaged"


def test_a_failure_is_a_warning_and_is_tried_again() -> None:
    ledger = Growing()
    ledger.last_seq = 10
    snapshots = Scripted(ledger)
    snapshots.ended = (FAILED, "no space")
    [line] = snapshots.write()
    assert (line["log_level"], line["error"]) == ("warning", "no space")
    assert snapshots.is_due


@pytest.mark.process
def test_the_process_writes_while_the_ledger_is_open(tmp_path: Path) -> None:
    async def scenario() -> int:
        ledger = SqliteLedger(tmp_path / LEDGER_FILE)
        await ledger.append(entries(1, 30, job=""))
        snapshots = BackgroundSnapshots(ledger, tmp_path, Limits(), 0, every=1)
        assert await snapshots._run_process() == (0, "")
        await ledger.close()
        head = FileSnapshots(tmp_path / SNAPSHOT_FILE).head()
        return head.seq if head else 0

    assert asyncio.run(scenario()) == 30


class EndedProcess:
    """A process that has ended when it is to be killed."""

    returncode = 0

    def __init__(self) -> None:
        self.is_read = asyncio.Event()

    async def communicate(self) -> tuple[bytes, bytes]:
        self.is_read.set()
        await asyncio.Event().wait()
        return b"", b""

    def kill(self) -> None:
        raise ProcessLookupError

    async def wait(self) -> int:
        return 0


def test_a_process_that_ends_while_it_is_stopped_does_not_keep_the_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        process = EndedProcess()

        # The race with a real process cannot be brought about.
        async def start(*_: object, **__: object) -> EndedProcess:
            return process

        monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
        ledger = Growing()
        ledger.last_seq = 10
        snapshots = BackgroundSnapshots(ledger, Path(), Limits(), 0, every=10, look_every=0.0)
        snapshots.start()
        await process.is_read.wait()
        async with asyncio.timeout(10):
            await snapshots.stop()

    asyncio.run(story())
