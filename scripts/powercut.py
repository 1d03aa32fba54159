"""`make powercut`: cut the power of a ledger again and again; nothing acknowledged may be missing.

A file system in user space (FUSE) would see every write of a process. Here the same is done one
level higher: SQLite writes through a VFS that logs each write, sync, truncation and deletion, and
the head file's writes are logged as well. A power cut keeps what was synced. Of the writes after
the last sync of a file, each is kept, lost or torn at a sector. The ledger is then opened on what
is left, as after a restart. What this does not see: errors of
the kernel, the disk, and directories.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from dragoman.ledger import head
from dragoman.ledger.base import Entry
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.body import Body
from dragoman.model.record import Kind, Record

SECTOR: Final = 512
LEDGER: Final = "ledger.sqlite"
#: Batches in each round at most, and records in each batch at most.
BATCHES: Final = 30
RECORDS: Final = 40
#: SQLite's own access to files.
BASE: Final = apsw.vfs_names()[0]


class DiskLog:
    """What is on the disk for certain, and what is only in its cache, by file name."""

    def __init__(self) -> None:
        self.synced: dict[str, bytes] = {}
        self.cached: dict[str, list[tuple[int, bytes]]] = {}

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Note a write; an offset of -1 cuts the file to the length that `data` has in ASCII."""
        self.cached.setdefault(name, []).append((offset, data))

    def sync(self, name: str) -> None:
        """Note that everything written to a file is on the disk."""
        self.synced[name] = apply_writes(self.synced.get(name, b""), self.cached.pop(name, []))

    def delete(self, name: str) -> None:
        """Note that a file is gone."""
        self.synced.pop(name, None)
        self.cached.pop(name, None)

    def after_cut(self, dice: random.Random) -> dict[str, bytes]:
        """Return the files that a power cut leaves."""
        names = self.synced.keys() | self.cached.keys()
        return {name: self._left(name, dice) for name in sorted(names)}

    def _left(self, name: str, dice: random.Random) -> bytes:
        kept = []
        for offset, data in self.cached.get(name, []):
            fate = dice.randrange(3)
            if fate == 0 and offset >= 0:
                kept.append((offset, data[: dice.randrange(0, len(data) + 1, SECTOR)]))
            elif fate < 2:
                kept.append((offset, data))
        return apply_writes(self.synced.get(name, b""), kept)


def apply_writes(content: bytes, writes: Sequence[tuple[int, bytes]]) -> bytes:
    """Return a file's content after some writes."""
    found = bytearray(content)
    for offset, data in writes:
        if offset < 0:
            del found[int(data) :]
            continue
        found.extend(b"\0" * (offset - len(found)))
        found[offset : offset + len(data)] = data
    return bytes(found)


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
        self._log.write(self._name, -1, str(size).encode())

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
    log = DiskLog()
    log.synced = {path.name: path.read_bytes() for path in folder.iterdir()}
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
        raise SystemExit(f"{acknowledged} records were acknowledged, {found} are left")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Cut the power `--rounds` times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="power cuts (50)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round (1)")
    given = parser.parse_args(arguments)
    started, acknowledged, more = time.monotonic(), 0, 0
    for seed in range(given.seed, given.seed + given.rounds):
        with tempfile.TemporaryDirectory(prefix="dragoman-powercut-") as name:
            dice = random.Random(seed)
            left, promised = fill(Path(name) / "live", dice)
            found = check(Path(name) / "after", left, promised)
            acknowledged += promised
            more += found - promised
    sys.stdout.write(
        f"{given.rounds} power cuts from seed {given.seed}: {acknowledged} records were "
        f"acknowledged, none is missing, {more} more were kept; "
        f"{time.monotonic() - started:.1f} s\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
