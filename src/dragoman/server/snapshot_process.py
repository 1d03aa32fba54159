"""A process of its own that writes a snapshot, so that the broker never waits for one.

It reads the ledger as anybody may: the last snapshot, then the records after it. So a snapshot is a
fold of durable records, whatever the broker does meanwhile. If it is killed, the old one stays.
"""

import os
import sys
from pathlib import Path
from typing import Final

from dragoman.ledger.base import LedgerError
from dragoman.ledger.layout import LEDGER_FILE
from dragoman.ledger.reader import LedgerReader
from dragoman.ledger.snapshots import SNAPSHOT_FILE, FileSnapshots
from dragoman.server.store_recovery import recover_store, take_snapshot

#: Exit codes: the snapshot is written; the ledger is damaged; it could not be written.
WRITTEN: Final = 0
DAMAGED: Final = 3
FAILED: Final = 4
#: The broker and its peers go first.
_NICE: Final = 10


def write_snapshot_of(data: Path, keep: int, retention: float, is_checked: bool) -> None:
    """Write a snapshot of a data folder's ledger; first check the whole file, unless it was."""
    reader = LedgerReader(data / LEDGER_FILE)
    try:
        if not is_checked:
            reader.check()
        if reader.last_seq < reader.first_seq:
            return
        snapshots = FileSnapshots(data / SNAPSHOT_FILE)
        store = recover_store(reader, snapshots, keep).store
        take_snapshot(store, reader, snapshots, retention)
    finally:
        reader.close()


def main(arguments: list[str]) -> int:
    """Run: data folder, finished jobs to keep, their retention in seconds, `checked` or `check`."""
    data, keep, retention, is_checked = arguments
    os.nice(_NICE)
    try:
        write_snapshot_of(Path(data), int(keep), float(retention), is_checked == "checked")
    except LedgerError as error:
        sys.stderr.write(f"{error}\n")
        return DAMAGED
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    return WRITTEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
