"""The step log: one Delta table (`steps`) whose newest row is the state of all tables.

Delta Lake commits one table at a time. A step commits all of them and then one row here, with the
version of each table. Readers begin here, so they see all tables at one position of the ledger. The
commit here is the one that decides between two writers; earlier rows are versions of this table.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from dragoman.pipeline.delta import PROPERTIES, ConcurrentWriter, DeltaLog, properties
from dragoman.pipeline.storage import exists, is_file, join, open_filesystem

STEPS: Final = "steps"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_INSTANT: Final = pa.timestamp("us", tz="UTC")
SCHEMA: Final = pa.schema(
    [
        ("seq", pa.int64()),
        ("horizon", _INSTANT),
        ("versions", pa.map_(pa.string(), pa.int64())),
    ]
)


class TablesOutdated(Exception):
    """The folder has tables of a layout that this release does not read."""


class StepNotFound(Exception):
    """No step is as old as asked for, or its log is no longer kept."""


def instant(micros: int) -> datetime:
    """Return the instant so many microseconds after the epoch.

    Spark returns timestamps in the time zone of the machine; whole numbers have no zone.
    """
    return _EPOCH + micros * _MICROSECOND


@dataclass(frozen=True)
class Snapshot:
    """The state of all tables after a step."""

    #: Counts the steps; 0 before the first.
    version: int = 0
    #: The newest record in the tables.
    seq: int = 0
    #: The newest instant in the tables; open intervals are measured up to it.
    horizon: datetime | None = None
    #: The Delta version of each table.
    tables: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StepInfo:
    """One line of the history."""

    version: int
    seq: int
    committed_at: datetime
    operation: str


def read_snapshot(root: str, version: int | None = None) -> Snapshot:
    """Return the newest state of the tables, or that of an earlier step."""
    log = DeltaLog(join(root, STEPS))
    table = log.open(None if version is None else version - 1)
    if table is None:
        if exists(join(root, "log")):
            raise TablesOutdated(
                f"the tables at {root} have the layout of an earlier release; choose a new folder "
                "and run the pipeline again over the same export"
            )
        if is_file(root):
            raise NotADirectoryError(f"{root} is a file; name a folder for the tables")
        return Snapshot()
    (row,) = _rows_of(table, log.uri)
    return Snapshot(table.version() + 1, row["seq"], row["horizon"], dict(row["versions"]))


def _rows_of(table: DeltaTable, uri: str) -> list[dict[str, Any]]:
    """Return the rows; `to_pyarrow_table` would import pandas."""
    import pyarrow.parquet as pq

    system, base = open_filesystem(uri)
    paths = pa.table(table.get_add_actions()).column("path").to_pylist()
    rows: list[dict[str, Any]] = []
    for path in paths:
        with pq.ParquetFile(f"{base}/{path}", filesystem=system) as file:
            rows += file.read().to_pylist()
    return rows


def commit_snapshot(root: str, former: Snapshot, following: Snapshot, operation: str) -> None:
    """Make a state valid, as the successor of another; raises `ConcurrentWriter` if it is not."""
    log = DeltaLog(join(root, STEPS))
    row = (following.seq, following.horizon, [*following.tables.items()])
    rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True))], SCHEMA)
    carried = properties(following.seq, dragoman=operation)
    try:
        if not former.version:
            write_deltalake(
                log.uri,
                rows,
                mode="error",
                configuration=PROPERTIES,
                storage_options=log.options,
                commit_properties=carried,
            )
        else:
            known = DeltaTable(log.uri, former.version - 1, storage_options=log.options)
            write_deltalake(known, rows, mode="overwrite", commit_properties=carried)
    except DeltaError as error:
        is_refused = isinstance(error, CommitFailedError) or not former.version
        if not is_refused or log.open() is None:
            raise
        raise ConcurrentWriter(log.uri) from error
    log.checkpoint(following.version - 1)


def history(root: str) -> list[StepInfo]:
    """Return the steps that the log still has, the newest first."""
    table = DeltaLog(join(root, STEPS)).open()
    entries: list[dict[str, Any]] = table.history() if table is not None else []
    return [
        StepInfo(
            entry["version"] + 1,
            int(entry["seq"]),
            instant(entry["timestamp"] * 1000),
            entry["dragoman"],
        )
        for entry in entries
        if "seq" in entry
    ]


def find_step(root: str, as_of: str) -> int:
    """Return the newest step at or before a ledger position or an instant (ISO 8601, UTC)."""
    known, wanted = history(root), _position(as_of)
    if isinstance(wanted, int):
        found = [step.version for step in known if step.seq <= wanted]
    else:
        found = [step.version for step in known if step.committed_at <= wanted]
    if not found:
        raise StepNotFound(
            f"the tables at {root} have no step at or before {as_of}; "
            "`dragoman pipeline history` lists the steps"
        )
    return max(found)


def _position(as_of: str) -> int | datetime:
    """Read a ledger position or an instant. Raises ValueError."""
    if as_of.isascii() and as_of.isdigit():
        return int(as_of)
    try:
        moment = datetime.fromisoformat(as_of)
    except ValueError:
        raise ValueError(
            f"{as_of!r} is neither a record number, such as 250000, nor an instant, such as "
            "2026-01-05T12:00:00 (UTC)"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
