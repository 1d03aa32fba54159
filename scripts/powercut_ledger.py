"""Power cuts of a ledger in this process, without FUSE: nothing acknowledged may be missing.

SQLite writes through a VFS that logs each write, sync, truncation and deletion, and the head file's
writes are logged as well. The ledger is then opened on what a power cut leaves. What this does not
see: directories, snapshots and segments. `powercut_broker` sees them.
"""

import asyncio
import os
import random
import tempfile
from pathlib import Path
from typing import Any, Final

import apsw
from scripts.volatile_disk import BrokenPromise, DiskFile

from dragoman.ledger import head
from dragoman.ledger.base import Entry
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.body import Body
from dragoman.model.record import Kind, Record

LEDGER: Final = "ledger.sqlite"
#: Batches in each round at most, and records in each batch at most.
BATCHES: Final = 30
RECORDS: Final = 40
#: SQLite's own access to files.
BASE: Final = apsw.vfs_names()[0]


class DiskLog:
    """What is on the disk for certain, and what is only in its cache, by file name."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self._files = {name: DiskFile(0, found) for name, found in content.items()}

    def write(self, name: str, offset: int, data: bytes | None) -> None:
        """Note a write or, without data, a new length."""
        self._files.setdefault(name, DiskFile(0)).write(offset, data)

    def sync(self, name: str) -> None:
        """Note that everything written to a file is on the disk."""
        self._files.setdefault(name, DiskFile(0)).sync()

    def delete(self, name: str) -> None:
        """Note that a file is gone."""
        self._files.pop(name, None)

    def after_cut(self, dice: random.Random) -> dict[str, bytes]:
        """Return the files that a power cut leaves."""
        return {name: file.after_cut(dice) for name, file in sorted(self._files.items())}


class LoggingFile(apsw.VFSFile):
    """A file of SQLite whose writes are logged."""

    def __init__(self, log: DiskLog, base: str, name: Any, flags: list[int]) -> None:
        super().__init__(base, name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._log, self._name = log, os.path.basename(path or "")

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        """Write and log."""
        super().xWrite(data, offset)
        self._log.write(self._name, offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        """Cut the file and log it."""
        super().xTruncate(size)
        self._log.write(self._name, size, None)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Sync and log."""
        super().xSync(flags)
        self._log.sync(self._name)


class LoggingVfs(apsw.VFS):
    """SQLite's own VFS, logged. It is the default as long as it exists."""

    def __init__(self, log: DiskLog) -> None:
        self._log = log
        super().__init__("powercut", BASE, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> LoggingFile:  # noqa: N802
        """Open a logged file."""
        return LoggingFile(self._log, BASE, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Delete a file and log it."""
        super().xDelete(filename, syncdir)
        self._log.delete(os.path.basename(filename))


def fill(folder: Path, dice: random.Random) -> tuple[dict[str, bytes], int]:
    """Write batches until the power goes out; return what is left and the last acknowledged."""
    asyncio.run(SqliteLedger(folder / LEDGER).close())
    log = DiskLog({path.name: path.read_bytes() for path in folder.iterdir()})
    vfs = LoggingVfs(log)
    written = os.pwrite

    def pwrite(file: int, data: bytes, offset: int) -> int:
        log.write(LEDGER + ".head", offset, data)
        return written(file, data, offset)

    setattr(head, "os", _Os(pwrite))  # noqa: B010 - the type checker knows a module there
    try:
        return asyncio.run(_append_until_cut(folder, dice, log))
    finally:
        setattr(head, "os", os)  # noqa: B010
        vfs.unregister()


class _Os:
    """The module `os` with another `pwrite`."""

    def __init__(self, pwrite: Any) -> None:
        self.pwrite = pwrite

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


async def _append_until_cut(
    folder: Path, dice: random.Random, log: DiskLog
) -> tuple[dict[str, bytes], int]:
    ledger = SqliteLedger(folder / LEDGER)
    acknowledged, number = 0, 0
    try:
        for _ in range(dice.randint(1, BATCHES)):
            batch = []
            for _ in range(dice.randint(1, RECORDS)):
                number += 1
                record = Record(number, 1000.0 + number, Kind.PUBLISHED, detail="x" * 20)
                body = Body("raw", (dice.randbytes(dice.choice((10, 3000, 40_000))),))
                batch.append(Entry(record, body if dice.random() < 0.3 else None))
            appending = asyncio.ensure_future(ledger.append(batch))
            if dice.random() < 0.05:
                # The power goes out while this batch is written: it is not acknowledged.
                await asyncio.sleep(dice.random() * 0.002)
                break
            acknowledged = await appending
        left = log.after_cut(dice)
    finally:
        await ledger.close()
    return left, acknowledged


def check(folder: Path, left: dict[str, bytes], acknowledged: int) -> int:
    """Open the ledger on what is left; return the number of its records."""
    folder.mkdir()
    for name, content in left.items():
        if not name.endswith("-shm"):
            (folder / name).write_bytes(content)
    ledger = SqliteLedger(folder / LEDGER)
    try:
        found = ledger.verify()
    finally:
        asyncio.run(ledger.close())
    if found < acknowledged:
        raise BrokenPromise(f"{acknowledged} records were acknowledged, {found} are left")
    return found


def cut(seed: int) -> tuple[int, int]:
    """Cut the power once; return the acknowledged records, and those that were kept besides."""
    with tempfile.TemporaryDirectory(prefix="dragoman-powercut-") as name:
        left, promised = fill(Path(name) / "live", random.Random(seed))
        return promised, check(Path(name) / "after", left, promised) - promised
