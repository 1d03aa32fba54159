"""The tables of one folder: Spark reads and writes their files, the Delta logs say which count.

A step writes new Parquet files of each table under `TABLE/write-ID/day=DAY/`, commits each table
to its Delta log, and then one row to the step log (`snapshot`). Attempts never share a folder. So
two writers cannot overwrite each other, and files of a killed one are never read. This module does
not know what the tables mean. There are three ways to write, by the meaning of the `day` column:

* *append*: adds rows of settled days. Rows without a day are not settled: only the newest count.
* *replace*: replaces all rows from one day on.
* *carry*: replaces the whole table; its rows have no day.
"""

import uuid
from collections.abc import Iterable
from datetime import date, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dragoman.pipeline.delta import DataFile, DeltaLog, Files, list_files
from dragoman.pipeline.snapshot import Snapshot, commit_snapshot, read_snapshot
from dragoman.pipeline.storage import join


class TableStore:
    """The tables of one folder, as of one step: the newest by default."""

    def __init__(self, spark: SparkSession, root: str, version: int | None = None) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        #: How many rows of each table the last step wrote; nothing before the first.
        self.written: dict[str, int] = {}
        self.snapshot = read_snapshot(self.root, version)
        self._files: dict[str, Files] = {}

    def files(self, table: str) -> Files:
        """Return the files of a table."""
        if table not in self._files:
            version = self.snapshot.tables.get(table)
            log = DeltaLog(join(self.root, table))
            self._files[table] = {} if version is None else log.files(version)
        return self._files[table]

    def read(self, table: str, schema: StructType, since: date | None = None) -> DataFrame:
        """Return a table's rows: the settled ones from a day on, and all that are not settled."""
        return self.read_files(table, schema, _since(self.files(table), since))

    def read_files(self, table: str, schema: StructType, files: Iterable[DataFile]) -> DataFrame:
        """Return the rows of some files of a table."""
        base = join(self.root, table)
        paths = [f"{base}/{file.path}" for file in files]
        if not paths:
            return nothing(self.spark, schema)
        reader = self.spark.read.schema(schema).option("basePath", base)
        # The folders of writes are no partitions; other engines would take `write=ID` for one.
        reader = reader.option("ignoreInvalidPartitionPaths", "true")
        return reader.parquet(*paths).select(*schema.fieldNames())

    def recent_rows(self) -> int:
        """Return the records of the newest day: about what every step reads again."""
        days = [file for file in self.files("events").values() if file.day is not None]
        newest = max((file.day for file in days if file.day is not None), default=None)
        return sum(file.rows for file in days if file.day == newest)

    def begin(self) -> "TableTransaction":
        """Start the next step."""
        return TableTransaction(self)

    def advance_to(self, snapshot: Snapshot, files: dict[str, Files]) -> None:
        """Take over the state that a step has committed."""
        self.snapshot, self._files = snapshot, self._files | files


class TableTransaction:
    """One step in the making. Nothing of it is valid before `commit`."""

    def __init__(self, store: TableStore) -> None:
        self.store = store
        self.former = store.snapshot
        self.attempt = uuid.uuid4().hex[:12]
        #: The files of each table after this step, and those that it wrote itself.
        self._files: dict[str, Files] = {}
        self._fresh: dict[str, Files] = {}
        self._schemas: dict[str, StructType] = {}

    def read(self, table: str, schema: StructType, since: date | None = None) -> DataFrame:
        """Return a table's rows with what this step wrote so far."""
        files = self._files.get(table, self.store.files(table))
        return self.store.read_files(table, schema, _since(files, since))

    def written(self, table: str, schema: StructType) -> DataFrame:
        """Return the rows of a table that this step wrote."""
        return self.store.read_files(table, schema, self._fresh[table].values())

    def append(self, table: str, rows: DataFrame) -> None:
        """Add settled rows, and replace the rows without a day."""
        former = self.store.files(table)
        settled = {path: file for path, file in former.items() if file.day is not None}
        self._put(table, settled, rows)

    def replace(self, table: str, rows: DataFrame, since: date) -> None:
        """Replace all rows from a day on."""
        former = self.store.files(table)
        before = {path: file for path, file in former.items() if file.day and file.day < since}
        self._put(table, before, rows)

    def carry(self, table: str, rows: DataFrame) -> None:
        """Replace a table that has no days."""
        self._put(table, {}, rows.withColumn("day", F.lit(None).cast("date")))

    def _put(self, table: str, kept: Files, rows: DataFrame) -> None:
        """Write rows; a second time replaces the first, in a folder of its own."""
        folder = f"write-{self.attempt}{'b' if table in self._fresh else ''}"
        base = join(self.store.root, table)
        rows.write.partitionBy("day").parquet(f"{base}/{folder}")
        fresh = list_files(base, folder)
        self._fresh[table], self._files[table] = fresh, {**kept, **fresh}
        self._schemas[table] = rows.schema

    @property
    def counts(self) -> dict[str, int]:
        """How many rows of each table this step wrote."""
        return {t: sum(f.rows for f in files.values()) for t, files in self._fresh.items()}

    def commit(self, seq: int, horizon: datetime | None) -> Snapshot:
        """Commit each table, then the step; raises `ConcurrentWriter` if another was first."""
        versions = dict(self.former.tables)
        for table, files in self._files.items():
            schema = to_arrow_schema(self._schemas[table], timezone="UTC")
            versions[table] = DeltaLog(join(self.store.root, table)).commit(files, schema, seq)
        following = Snapshot(self.former.version + 1, seq, horizon, versions)
        commit_snapshot(self.store.root, self.former, following, "step")
        self.store.advance_to(following, self._files)
        self.store.written = self.counts
        return following


def nothing(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return no rows, in a form that lets Spark skip everything that depends on them."""
    nulls = (f"cast(null as {f.dataType.simpleString()}) as {f.name}" for f in schema.fields)
    return spark.sql(f"select {', '.join(nulls)} where false")


def _since(files: Files, since: date | None) -> list[DataFile]:
    return [f for f in files.values() if since is None or f.day is None or f.day >= since]
