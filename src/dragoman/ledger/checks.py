"""Every check of a ledger in one place: what `up` refuses, what an audit finds, the segments.

Reads only, and needs no lock. Slower than the check at opening: it reads every record and body.
"""

from pathlib import Path

import apsw

from dragoman.ledger import layout
from dragoman.ledger.audit import audit
from dragoman.ledger.base import LedgerError
from dragoman.ledger.damage import CorruptData
from dragoman.ledger.head import is_damaged, read_head
from dragoman.ledger.layout import LEDGER_FILE, SEALED_FOLDER
from dragoman.ledger.manifest import check_segment, read_manifest


def problems_of(data: Path, key: bytes = b"") -> list[str]:
    """Return what is wrong with the ledger of a data folder; nothing: `up` accepts it."""
    path = data / LEDGER_FILE
    head = path.with_name(path.name + ".head")
    if not path.is_file():
        lost = read_head(head)
        return [f"{path} is missing; it had {lost} records"] if lost else []
    found = []
    if is_damaged(head):
        found.append(f"{head} is damaged: missing records at the end cannot be detected")
    return [*found, *_opening(path, read_head(head)), *_records(path, key), *_segments(data)]


def _opening(path: Path, acknowledged: int) -> list[str]:
    """Make the check that `up` makes."""
    try:
        connection = layout.connect(path)
    except apsw.Error as error:
        return [f"{path} cannot be opened: {error}"]
    try:
        layout.check(connection, acknowledged)
    except (apsw.Error, LedgerError, CorruptData, ValueError, TypeError) as error:
        return [f"{path}: {error}"]
    finally:
        connection.close()
    return []


def _records(path: Path, key: bytes) -> list[str]:
    try:
        report = audit(path, key)
    except LedgerError as error:
        return [str(error)]
    return [f"record {finding.seq} {finding.what}" for finding in report.findings]


def _segments(data: Path) -> list[str]:
    folder = data / SEALED_FOLDER
    try:
        segments = read_manifest(folder).segments
    except LedgerError as error:
        return [str(error)]
    found, expected = [], segments[0].first if segments else 1
    for segment in segments:
        if segment.first != expected:
            found.append(f"{folder}: no segment has records {expected} to {segment.first - 1}")
        expected = segment.last + 1
        found += check_segment(folder, segment)
    return found
