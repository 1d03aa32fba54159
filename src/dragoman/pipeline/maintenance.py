"""Upkeep of the tables without Spark: merge small files, delete old ones, undo lost commits."""

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
from dragoman.pipeline.snapshot import STEPS, commit_snapshot, read_snapshot
from dragoman.pipeline.storage import join, make_parent, open_filesystem
from dragoman.pipeline.table_state import TableState

#: `compact` merges files below the first size, into files of about the second.
SMALL_BYTES: Final = 64 << 20
TARGET_BYTES: Final = 160 << 20
#: A run merges files below this size, if one day of a table has so many.
TINY_BYTES: Final = 1 << 20
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


def upkeep(state: TableState) -> None:
    """Merge and delete files after a step, if it is time; skipped if another writer commits."""
    number = state.snapshot.version
    try:
        _compact(state, MANY_FILES, TINY_BYTES)
        if number % VACUUM_EVERY == 0:
            vacuum(state.root)
    except ConcurrentWriter:
        return


def compact(root: str, least: int = 2) -> dict[str, int]:
    """Merge the small files of each day; return by how many files each table shrank.

    Args:
        root: The folder of the tables.
        least: The smallest number of small files of a day to merge.

    """
    return _compact(TableState(root), least, SMALL_BYTES)


def _compact(state: TableState, least: int, below: int) -> dict[str, int]:
    former = state.snapshot
    versions, merged = dict(former.tables), {}
    for name in former.tables:
        log, files = DeltaLog(join(state.root, name)), state.files(name)
        found = _merged(log, files, least, below)
        if len(found) < len(files):
            versions[name] = log.commit(found, _schema(log), former.seq)
            merged[name] = found
    fewer = {name: len(state.files(name)) - len(found) for name, found in merged.items()}
    if fewer:
        following = replace(former, version=former.version + 1, tables=versions)
        commit_snapshot(state.root, former, following, "compact")
        state.advance_to(following, merged)
    return fewer


def _merged(log: DeltaLog, files: Files, least: int, below: int) -> Files:
    """Return the files with those of each settled day merged that are below a size."""
    folder = f"write-{uuid.uuid4().hex[:12]}"
    days: defaultdict[object, list[DataFile]] = defaultdict(list)
    for file in files.values():
        if file.day is not None and file.size < below:
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
    table = log.require()
    found: pa.Schema = pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]
    return found


def vacuum(root: str, keep_hours: int = KEEP_HOURS, *, dry_run: bool = False) -> dict[str, int]:
    """Delete files that no step of the last hours uses; return their number by table.

    A file of such a step was replaced after the step, so within these hours; delta-rs spares it.
    The newest step is named as well: a writer that was killed may have replaced its files long ago.
    """
    snapshot = read_snapshot(root)
    wanted = {STEPS: snapshot.version - 1, **snapshot.tables}
    return {name: _vacuum(join(root, name), keep_hours, v, dry_run) for name, v in wanted.items()}


def _vacuum(uri: str, keep_hours: int, version: int, dry_run: bool) -> int:
    table = DeltaLog(uri).require()
    gone = table.vacuum(
        keep_hours,
        dry_run=dry_run,
        enforce_retention_duration=False,
        full=True,
        keep_versions=[version],
    )
    return len(gone)
