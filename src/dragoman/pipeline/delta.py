"""The Delta log of one table, through delta-rs: which Parquet files each version consists of.

Spark writes the files, each attempt into its own folder (`write-ID/day=DAY/`). A file is part of
the table only after `commit` has put it into the log. A commit is optimistic: it succeeds only as
the successor of the version it was computed from. This module needs no Spark.
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from dragoman.pipeline.storage import open_filesystem, plain_uri, storage_options

if TYPE_CHECKING:
    import pyarrow as pa

#: The application id of our transactions: its version is the ledger position.
APP: Final = "dragoman"
PARTITION: Final = "day"
#: Commits between two checkpoints: a reader reads the newest checkpoint and the commits after it.
CHECKPOINT_EVERY: Final = 10
#: Earlier versions are of no use, because `vacuum` deletes their files after a week.
PROPERTIES: Final = {"delta.logRetentionDuration": "interval 7 days"}
#: The beginning of the errors of object stores; they are not about the tables.
_STORAGE: Final = "Generic S3 error"
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


class ConcurrentWriter(Exception):
    """Another writer committed first. Nothing of this step is valid; do it again."""

    def __init__(self, uri: str) -> None:
        super().__init__(
            f"another writer changed {uri}; nothing of this run is valid, run it again"
        )


class TablesDamaged(Exception):
    """A table, or a file of it, is gone or cannot be read."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the tables are damaged: {what}. Restore them from a copy, or run the pipeline again "
            "over the same export into a new folder"
        )


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of a table; `path` is relative to the table's folder."""

    path: str
    size: int
    rows: int
    #: The value of the partition; rows that are not settled have none.
    day: date | None

    @property
    def partition(self) -> dict[str, str | None]:
        """The partition as the Delta log writes it."""
        return {PARTITION: self.day.isoformat() if self.day else None}


Files = Mapping[str, DataFile]


class DeltaLog:
    """The versions of one table."""

    def __init__(self, uri: str) -> None:
        self.uri = plain_uri(uri)
        self.options = storage_options(uri)

    def open(self, version: int | None = None) -> DeltaTable | None:
        """Return a version of the table, the newest by default; None if there is no table."""
        try:
            return DeltaTable(self.uri, version=version, storage_options=self.options)
        except TableNotFoundError:
            return None
        except DeltaError as error:
            if _STORAGE in str(error):
                raise
            raise TablesDamaged(
                f"the log of {self.uri} cannot be read ({_brief(error)})"
            ) from error

    def require(self, version: int | None = None) -> DeltaTable:
        """Return a version of a table that the step log names. Raises TablesDamaged."""
        table = self.open(version)
        if table is None:
            raise TablesDamaged(f"the step log names the table {self.uri}, and it is gone")
        return table

    def files(self, version: int) -> Files:
        """Return the files of a version. Raises TablesDamaged."""
        return files_of(self.require(version))

    def commit(self, wanted: Files, schema: "pa.Schema", seq: int) -> int:
        """Make the newest version consist of exactly these files; return its number.

        The actions are the difference to the newest version, whichever it is: so this also undoes
        the commits of a writer that was killed before its step was complete.
        """
        table = self.open()
        if table is None:
            return self._create(wanted, schema, seq)
        self._add_columns(table, schema)
        present = files_of(table)
        added = [_add(file) for path, file in wanted.items() if path not in present]
        removed = [_remove(file) for path, file in present.items() if path not in wanted]
        if not added and not removed:
            return table.version()
        try:
            table.create_write_transaction(
                [*added, *removed],
                "append",
                Schema.from_arrow(schema),
                [PARTITION],
                commit_properties=properties(seq),
            )
        except CommitFailedError as error:
            raise ConcurrentWriter(self.uri) from error
        self.checkpoint(table.version() + 1)
        return table.version() + 1

    def checkpoint(self, version: int) -> None:
        """Sum up the log at every tenth version, so that its readers need not read all of it."""
        is_due = version and version % CHECKPOINT_EVERY == 0
        table = self.open(version) if is_due else None
        if table is not None:
            table.create_checkpoint()

    def _create(self, wanted: Files, schema: "pa.Schema", seq: int) -> int:
        actions = [_add(file) for file in wanted.values()]
        columns = Schema.from_arrow(schema)
        try:
            create_table_with_add_actions(
                self.uri,
                columns,
                actions,
                partition_by=[PARTITION],
                configuration=PROPERTIES,
                storage_options=self.options,
                commit_properties=properties(seq),
            )
        except (CommitFailedError, DeltaError) as error:
            if self.open() is None:
                raise
            raise ConcurrentWriter(self.uri) from error
        return 0

    def _add_columns(self, table: DeltaTable, schema: "pa.Schema") -> None:
        """Add the columns that an older release of the pipeline did not write."""
        wanted, known = Schema.from_arrow(schema), {f.name for f in table.schema().fields}
        if fresh := [field for field in wanted.fields if field.name not in known]:
            try:
                table.alter.add_columns(fresh)
            except CommitFailedError as error:
                raise ConcurrentWriter(self.uri) from error


def properties(seq: int, **metadata: object) -> CommitProperties:
    """Return what every commit carries. No retries: a retry would commit beside a rival."""
    return CommitProperties(
        custom_metadata={"seq": seq, **metadata},
        max_commit_retries=0,
        app_transactions=[Transaction(APP, seq)],
    )


def files_of(table: DeltaTable) -> Files:
    """Return the files of a version that was opened."""
    import pyarrow as pa

    found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = (
        DataFile(row["path"], row["size_bytes"], row["num_records"], row[f"partition.{PARTITION}"])
        for row in found
    )
    return {file.path: file for file in files}


def list_files(uri: str, folder: str) -> Files:
    """Return the Parquet files below a folder of a table; rows are counted by their footers."""
    import pyarrow.parquet as pq
    from pyarrow import fs

    system, base = open_filesystem(uri)
    selector = fs.FileSelector(f"{base}/{folder}", recursive=True, allow_not_found=True)
    found = {}
    for info in system.get_file_info(selector):
        if info.type != fs.FileType.File or not info.base_name.endswith(".parquet"):
            continue
        path = info.path.removeprefix(f"{base}/")
        rows = pq.read_metadata(info.path, filesystem=system).num_rows
        if rows:
            found[path] = DataFile(path, info.size, rows, day_in(path))
    return found


def day_in(path: str) -> date | None:
    """Return the day that a path names."""
    (text,) = [part.partition("=")[2] for part in path.split("/") if part.startswith("day=")]
    return None if text == _NULL else date.fromisoformat(text)


def without(files: Files, paths: Iterable[str]) -> Files:
    """Return files but for some."""
    gone = set(paths)
    return {path: file for path, file in files.items() if path not in gone}


def _add(file: DataFile) -> AddAction:
    stats = json.dumps({"numRecords": file.rows})
    return AddAction(file.path, file.size, file.partition, _now_ms(), True, stats)


def _remove(file: DataFile) -> RemoveAction:
    return RemoveAction(file.path, True, _now_ms(), file.size, file.partition)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _brief(error: Exception) -> str:
    """Return the first line of an error: delta-rs adds its stack."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
