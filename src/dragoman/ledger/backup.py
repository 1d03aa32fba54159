"""Backup and restore of a ledger with its sealed segments.

A backup works beside a running broker: SQLite copies a consistent state of the database while the
broker writes on. The database is copied first. Segments sealed after that are left out, so the copy
never has segments of records that its ledger lacks.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import apsw

from dragoman.ledger import layout
from dragoman.ledger.atomic_file import make_folder, no_step_hook
from dragoman.ledger.audit import audit
from dragoman.ledger.base import LedgerError
from dragoman.ledger.export import CHECKPOINT
from dragoman.ledger.head import HeadFile
from dragoman.ledger.layout import LEDGER_FILE, SEALED_FOLDER
from dragoman.ledger.manifest import Manifest, check_segment, read_manifest, write_manifest
from dragoman.model.value import value

#: Pages copied at a time. Between two steps the broker can write.
_PAGES: Final = 2000


@value
class BackupReport:
    """What was copied and verified."""

    first: int
    last: int
    segments: int
    #: The link of the last record, for a later `audit verify --head`.
    head: str


def backup(data: Path, target: Path, key: bytes = b"") -> BackupReport:
    """Copy the ledger of a data folder into a new folder, and verify the copy."""
    source = data / LEDGER_FILE
    if not source.is_file():
        raise LedgerError(f"{source}: no such ledger file")
    _new_folder(target)
    _copy_database(source, target / LEDGER_FILE)
    manifest = _copy_sealed(data, target)
    return _verified(target, manifest, key)


def restore(source: Path, data: Path, key: bytes = b"") -> BackupReport:
    """Copy a backup into a data folder that has no ledger, and verify the copy."""
    if not (source / LEDGER_FILE).is_file():
        raise LedgerError(f"{source} is not a backup: it has no {LEDGER_FILE}")
    found = [*data.glob(f"{LEDGER_FILE}*"), data / SEALED_FOLDER]
    if existing := [path for path in found if path.exists()]:
        names = ", ".join(path.name for path in existing)
        raise LedgerError(f"{data} has a ledger already ({names}); move it away first")
    make_folder(data)
    _copy_database(source / LEDGER_FILE, data / LEDGER_FILE)
    manifest = _copy_sealed(source, data)
    return _verified(data, manifest, key)


def _new_folder(target: Path) -> None:
    if target.exists() and any(target.iterdir()):
        raise LedgerError(f"{target} is not empty; name a new folder for the backup")
    make_folder(target)


def _copy_database(source: Path, target: Path) -> None:
    """Copy a database, also while another process writes it."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    reader, writer = layout.connect(source), apsw.Connection(str(target))
    try:
        with writer.backup("main", reader, "main") as copy:
            while not copy.done:
                copy.step(_PAGES)
        writer.pragma("journal_mode", "wal")
        last = writer.execute("SELECT max(seq) FROM records").get or 0
    except apsw.Error as error:
        raise LedgerError(
            f"{source}: cannot be copied: {error}; `dragoman ledger verify` says what is damaged"
        ) from None
    finally:
        reader.close()
        writer.close()
    _sync(target)
    head = HeadFile(target.with_name(target.name + ".head"))
    head.write(last)
    head.close()


def _copy_sealed(source: Path, target: Path) -> Manifest:
    """Copy the segments that the copied ledger calls sealed."""
    connection = layout.connect(target / LEDGER_FILE)
    try:
        sealed_up_to = layout.read_checkpoints(connection).get(CHECKPOINT, 0)
    finally:
        connection.close()
    return copy_segments(source / SEALED_FOLDER, target / SEALED_FOLDER, sealed_up_to)


def copy_segments(source: Path, target: Path, sealed_up_to: int) -> Manifest:
    """Copy the segments that the copied ledger knows, and a manifest of just those."""
    kept = [s for s in read_manifest(source).segments if s.last <= sealed_up_to]
    manifest = Manifest(segments=kept)
    if not kept:
        return manifest
    make_folder(target)
    for segment in kept:
        try:
            shutil.copyfile(source / segment.file, target / segment.file)
        except FileNotFoundError:
            raise LedgerError(
                f"{source / segment.file} is gone: if retention has removed it just now, start "
                "again with a new folder; `dragoman ledger verify` says whether it is missing"
            ) from None
        _sync(target / segment.file)
    write_manifest(target, manifest, no_step_hook)
    return manifest


def _verified(folder: Path, manifest: Manifest, key: bytes) -> BackupReport:
    report = audit(folder / LEDGER_FILE, key)
    problems = [f"record {finding.seq} {finding.what}" for finding in report.findings]
    for segment in manifest.segments:
        problems += check_segment(folder / SEALED_FOLDER, segment)
    if problems:
        raise LedgerError(f"{folder}: the copy is not sound: {'; '.join(problems[:5])}")
    return BackupReport(report.first, report.last, len(manifest.segments), report.head)


def _sync(path: Path) -> None:
    path.chmod(0o600)
    with path.open("rb") as file:
        os.fsync(file.fileno())
