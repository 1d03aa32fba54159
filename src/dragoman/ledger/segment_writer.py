"""Writes a range of a ledger's records as the draft of a segment, in this process or in another.

A draft has a temporary name of its own. The sealer gives it its name, so a writer that outlives its
broker can only leave a draft behind, and drafts are removed at the next start.

A broker writes its segments in a process of its own: the Parquet library takes 80 MB, and it would
hold up the broker's loop.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from dragoman.ledger.base import Ledger, LedgerError
from dragoman.ledger.manifest import SealedSegment
from dragoman.ledger.reader import LedgerReader
from dragoman.ledger.rows import Row

if TYPE_CHECKING:
    import pyarrow as pa

#: Writes so many records after a position; returns the draft and its entry in the manifest.
WriteDraft = Callable[[Path, int, int], tuple[Path, SealedSegment]]

_BLOCK: Final = 2000  #: rows converted to columns at once; fits the processor cache
#: The broker and its peers go first.
_NICE: Final = 10


class Rows(Protocol):
    """What a writer needs of a ledger."""

    def rows(self, after: int, limit: int) -> list[Row]:
        """Return records after a position as plain tuples in field order."""
        ...


def in_this_process(ledger: Ledger) -> WriteDraft:
    """Return a writer for a ledger that no other process can read, such as one in memory."""

    def write(directory: Path, after: int, count: int) -> tuple[Path, SealedSegment]:
        from dragoman.ledger.segments import write_draft

        return write_draft(directory, _batches(ledger, after, count))

    return write


def in_another_process(ledger_file: Path) -> WriteDraft:
    """Return a writer that reads the ledger's file in a process of its own."""

    def write(directory: Path, after: int, count: int) -> tuple[Path, SealedSegment]:
        command = [sys.executable, "-m", __name__, str(ledger_file), str(directory)]
        done = subprocess.run(
            [*command, str(after), str(count)],
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-500:]
            raise LedgerError(f"{directory}: the process that writes segments failed: {said}")
        file, segment = msgspec.json.decode(done.stdout, type=tuple[str, SealedSegment])
        return directory / file, segment

    return write


def _batches(ledger: Rows, after: int, count: int) -> "list[pa.RecordBatch]":
    from dragoman.ledger.segments import to_batch

    batches, last = [], after + count
    while after < last:
        rows = ledger.rows(after, min(_BLOCK, last - after))
        batches.append(to_batch(rows))
        after = rows[-1][0]
    return batches


class _NoPandas(MetaPathFinder):
    """Hides pandas: the Parquet library loads it to convert values, which costs a second."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Find every module elsewhere, but pandas nowhere."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def main(arguments: list[str]) -> int:
    """Run: ledger file, directory, position, count. Print the name of the draft and its entry."""
    ledger_file, directory, after, count = arguments
    os.nice(_NICE)
    sys.meta_path.insert(0, _NoPandas())
    from dragoman.ledger.segments import write_draft

    try:
        reader = LedgerReader(Path(ledger_file))
        draft, segment = write_draft(Path(directory), _batches(reader, int(after), int(count)))
    except (LedgerError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode((draft.name, segment)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
