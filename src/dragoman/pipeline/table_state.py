"""The state of all tables and of one step, whichever engine reads and writes the files.

A step writes new Parquet files of each table under `TABLE/write-ID/day=DAY/`, commits each table
to its Delta log, and then one row to the step log (`snapshot`). Attempts never share a folder. So
two writers cannot overwrite each other, and files of a killed one are never read. There are three
ways to write, by the meaning of the `day` column:

* *append*: adds rows of settled days. Rows without a day are not settled: only the newest count.
* *replace*: replaces all rows from one day on.
* *carry*: replaces the whole table; its rows have no day.
"""

import uuid
from datetime import date, datetime
from typing import TYPE_CHECKING

from dragoman.pipeline.delta import DataFile, DeltaLog, Files, list_files
from dragoman.pipeline.snapshot import Snapshot, commit_snapshot, read_snapshot
from dragoman.pipeline.storage import join

if TYPE_CHECKING:
    import pyarrow as pa


class TableState:
    """The tables of one folder, as of one step: the newest by default."""

    def __init__(self, root: str, version: int | None = None) -> None:
        self.root = root.rstrip("/")
        #: How many rows of each table the last step wrote; nothing before the first.
        self.written: dict[str, int] = {}
        self.snapshot = read_snapshot(self.root, version)
        self._files: dict[str, Files] = {}

    def refresh(self) -> None:
        """Take over the newest step, if another writer committed it."""
        newest = read_snapshot(self.root)
        if newest != self.snapshot:
            self.snapshot, self._files = newest, {}

    def files(self, table: str) -> Files:
        """Return the files of a table."""
        if table not in self._files:
            version = self.snapshot.tables.get(table)
            log = DeltaLog(join(self.root, table))
            self._files[table] = {} if version is None else log.files(version)
        return self._files[table]

    def recent_rows(self) -> int:
        """Return the records of the newest day: about what every step reads again."""
        days = [file for file in self.files("events").values() if file.day is not None]
        newest = max((file.day for file in days if file.day is not None), default=None)
        return sum(file.rows for file in days if file.day == newest)

    def advance_to(self, snapshot: Snapshot, files: dict[str, Files]) -> None:
        """Take over the state that a step has committed."""
        self.snapshot, self._files = snapshot, self._files | files


class StepState:
    """The files of one step in the making. Nothing of it is valid before `commit`."""

    def __init__(self, state: TableState) -> None:
        self.state = state
        self.former = state.snapshot
        self.attempt = uuid.uuid4().hex[:12]
        #: The files of each table after this step, and those that it wrote itself.
        self._files: dict[str, Files] = {}
        self._fresh: dict[str, Files] = {}
        self._schemas: dict[str, pa.Schema] = {}

    def files(self, table: str, since: date | None = None) -> list[DataFile]:
        """Return the files of a table with those that this step wrote so far."""
        return since_day(self._files.get(table, self.state.files(table)), since)

    def fresh(self, table: str) -> list[DataFile]:
        """Return the files of a table that this step wrote."""
        return [*self._fresh[table].values()]

    def settled(self, table: str, before: date | None = None) -> Files:
        """Return the files of settled days: all, or those before a day."""
        former = self.state.files(table)
        return {
            path: file
            for path, file in former.items()
            if file.day is not None and (before is None or file.day < before)
        }

    def folder(self, table: str) -> str:
        """Return the folder for new files of a table; a second write gets one of its own."""
        return f"write-{self.attempt}{'b' if table in self._fresh else ''}"

    def take(self, table: str, kept: Files, folder: str, schema: "pa.Schema") -> None:
        """Make the table consist of some former files and of those in a new folder."""
        fresh = list_files(join(self.state.root, table), folder)
        self._fresh[table], self._files[table] = fresh, {**kept, **fresh}
        self._schemas[table] = schema

    @property
    def counts(self) -> dict[str, int]:
        """How many rows of each table this step wrote."""
        return {t: sum(f.rows for f in files.values()) for t, files in self._fresh.items()}

    def commit(self, seq: int, horizon: datetime | None) -> Snapshot:
        """Commit each table, then the step; raises `ConcurrentWriter` if another was first."""
        versions = dict(self.former.tables)
        for table, files in self._files.items():
            log = DeltaLog(join(self.state.root, table))
            versions[table] = log.commit(files, self._schemas[table], seq)
        following = Snapshot(self.former.version + 1, seq, horizon, versions)
        commit_snapshot(self.state.root, self.former, following, "step")
        self.state.advance_to(following, self._files)
        self.state.written = self.counts
        return following


def since_day(files: Files, since: date | None) -> list[DataFile]:
    """Return the files of the settled days from one on, and all that are not settled."""
    return [f for f in files.values() if since is None or f.day is None or f.day >= since]
