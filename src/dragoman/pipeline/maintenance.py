"""Upkeep of the tables without Spark: merge small files, delete old ones, undo lost commits."""

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeVar

import pyarrow as pa

from dragoman.pipeline.delta import (
    ConcurrentWriter,
    DataFile,
    DeltaLog,
    Files,
    list_files,
    without,
)
from dragoman.pipeline.snapshot import STEPS, Snapshot, commit_snapshot, history, read_snapshot
from dragoman.pipeline.storage import join, make_parent, open_filesystem

#: Files below the first size are merged, into files of about the second.
SMALL_BYTES: Final = 64 << 20
TARGET_BYTES: Final = 160 << 20
#: Small files of one day in a table before a run merges them.
MANY_FILES: Final = 16
#: Steps between two deletions of old files.
VACUUM_EVERY: Final = 64
#: Hours that replaced files are kept, for running readers and for `--as-of`.
KEEP_HOURS: Final = 168
#: Attempts at a step that another writer refused without adding records.
_ATTEMPTS: Final = 3
_ROWS_PER_GROUP: Final = 128_000
T = TypeVar("T")


def retrying(root: str, work: Callable[[], T]) -> T:
    """Repeat a step if another writer committed first; there may be nothing left to do then.

    While others add records, every repetition has less to do, so it ends. Otherwise it is given up
    after a few attempts.
    """
    lost = 0
    while True:
        former = read_snapshot(root)
        try:
            return work()
        except ConcurrentWriter:
            found = read_snapshot(root)
            lost = 0 if found.seq > former.seq else lost + 1
            if lost == _ATTEMPTS:
                raise
            if found.version > former.version:
                repair(root)


def repair(root: str) -> None:
    """Make the newest version of each table equal to that of the newest step.

    A writer that lost a race or was killed may have committed some tables. Readers that use the
    step log do not see that; readers of a single table do.
    """
    snapshot = read_snapshot(root)
    for name, version in snapshot.tables.items():
        log = DeltaLog(join(root, name))
        try:
            log.commit(log.files(version), _schema(log), snapshot.seq)
        except ConcurrentWriter:
            return


def upkeep(root: str, snapshot: Snapshot) -> None:
    """Merge and delete files after a step, if it is time; skipped if another writer commits."""
    try:
        compact(root, MANY_FILES)
        if snapshot.version % VACUUM_EVERY == 0:
            vacuum(root)
    except ConcurrentWriter:
        return


def compact(root: str, least: int = 2) -> dict[str, int]:
    """Merge the small files of each day; return by how many files each table shrank.

    Args:
        root: The folder of the tables.
        least: The smallest number of small files of a day to merge.

    """
    former = read_snapshot(root)
    versions, fewer = dict(former.tables), {}
    for name, version in former.tables.items():
        log = DeltaLog(join(root, name))
        files = log.files(version)
        merged = _merged(log, files, least)
        if len(merged) < len(files):
            versions[name] = log.commit(merged, _schema(log), former.seq)
            fewer[name] = len(files) - len(merged)
    if fewer:
        following = replace(former, version=former.version + 1, tables=versions)
        commit_snapshot(root, former, following, "compact")
    return fewer


def _merged(log: DeltaLog, files: Files, least: int) -> Files:
    """Return the files with the small ones of each settled day merged."""
    folder = f"write-{uuid.uuid4().hex[:12]}"
    days: defaultdict[object, list[DataFile]] = defaultdict(list)
    for file in files.values():
        if file.day is not None and file.size < SMALL_BYTES:
            days[file.day].append(file)
    gone: list[str] = []
    for day, found in days.items():
        if len(found) >= least:
            for number, group in enumerate(_groups(sorted(found, key=lambda f: f.path))):
                _merge(log, group, f"{folder}/day={day}/part-{number:05d}.parquet")
                gone += [file.path for file in group]
    return {**without(files, gone), **list_files(log.uri, folder)} if gone else files


def _groups(files: list[DataFile]) -> Iterator[list[DataFile]]:
    """Divide files into groups of about the target size; a single file is not merged."""
    group: list[DataFile] = []
    for file in files:
        group.append(file)
        if sum(f.size for f in group) >= TARGET_BYTES:
            yield group
            group = []
    if len(group) > 1:
        yield group


def _merge(log: DeltaLog, files: list[DataFile], path: str) -> None:
    # Imports pandas, which few runs need.
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    system, base = open_filesystem(log.uri)
    schema = pa.schema([field for field in _schema(log) if field.name != "day"])
    paths = [f"{base}/{file.path}" for file in files]
    source = ds.dataset(paths, schema=schema, format="parquet", filesystem=system)
    target = f"{base}/{path}"
    make_parent(system, target)
    with pq.ParquetWriter(target, schema, filesystem=system, compression="zstd") as writer:
        for batch in source.to_batches(batch_size=_ROWS_PER_GROUP):
            writer.write_batch(batch)


def _schema(log: DeltaLog) -> pa.Schema:
    table = log.open()
    assert table is not None
    found: pa.Schema = pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]
    return found


def vacuum(root: str, keep_hours: int = KEEP_HOURS, *, dry_run: bool = False) -> dict[str, int]:
    """Delete files that no step of the last hours uses; return their number by table."""
    since = time.time() - keep_hours * 3600
    snapshot = read_snapshot(root)
    kept = [s.version for s in history(root) if s.committed_at.timestamp() >= since]
    steps = [read_snapshot(root, version) for version in kept] or [snapshot]
    wanted = {STEPS: [s.version - 1 for s in (*steps, snapshot)]}
    for name in snapshot.tables:
        wanted[name] = sorted({s.tables[name] for s in (*steps, snapshot) if name in s.tables})
    return {name: _vacuum(join(root, name), keep_hours, v, dry_run) for name, v in wanted.items()}


def _vacuum(uri: str, keep_hours: int, versions: list[int], dry_run: bool) -> int:
    table = DeltaLog(uri).open()
    assert table is not None
    gone = table.vacuum(
        keep_hours,
        dry_run=dry_run,
        enforce_retention_duration=False,
        full=True,
        keep_versions=versions,
    )
    return len(gone)
