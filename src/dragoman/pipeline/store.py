"""Where the tables are: immutable versions, and one small log file that says which are valid.

A step writes each table's new rows under `<table>/v=<version>/day=<day>` and then, last of all,
one file in `log/`. Readers follow the newest log file, so a step is seen whole or not at all, and
a step that was killed is simply done again over its own leavings. Nothing here knows what the
tables mean. Only Spark touches the paths, so they may be on anything Spark can write to.

There are three ways to write, by the meaning of the `day` column:

* *append*: new rows of settled days are added. Rows without a day are not settled yet: of these
  only the newest version's count.
* *replace*: everything from one day on is written anew.
* *carry*: no days at all; the newest version is the whole table.
"""

from datetime import date, datetime
from functools import reduce
from itertools import groupby
from operator import or_
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StructField, StructType

from dragoman.pipeline.snapshot import Snapshot, VersionPart, snapshot_from

#: So many versions of one table, written after each other, are merged into one.
MERGE_AT: Final = 16
#: Old log files (and what only they refer to) that stay for readers still at work.
KEPT: Final = 3


class TableStore:
    """The tables of one folder, as of the newest complete step."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        #: How many rows of each table the last step wrote; nothing before the first.
        self.written: dict[str, int] = {}
        #: Every snapshot that still has its files, oldest first.
        self.history = self._history()

    @property
    def snapshot(self) -> Snapshot:
        """What the newest complete step left behind."""
        return self.history[-1] if self.history else Snapshot()

    def _history(self) -> list[Snapshot]:
        try:
            lines = self.spark.read.text(f"{self.root}/log/*").collect()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return []
        return sorted((snapshot_from(row[0]) for row in lines), key=lambda s: s.version)

    def read(self, table: str, schema: StructType, since: date | None = None) -> DataFrame:
        """Return a table's rows: the settled ones from a day on, and all that are not settled."""
        return self.read_as_of(self.snapshot, table, schema, since)

    def read_as_of(
        self, snapshot: Snapshot, table: str, schema: StructType, since: date | None = None
    ) -> DataFrame:
        """Return a table's rows as a snapshot has them."""
        parts = [p for p in snapshot.parts.get(table, ()) if p.reaches(since)]
        unsettled = snapshot.unsettled.get(table)
        versions = {p.version for p in parts} | ({unsettled} if unsettled else set())
        if not versions:
            return nothing(self.spark, schema)
        counts = [_counts(part, since) for part in parts]
        if unsettled:
            counts.append((F.col("v") == unsettled) & F.col("day").isNull())
        found = self.read_versions(table, schema, sorted(versions))
        return found.where(reduce(or_, counts)).select(*schema.fieldNames())

    def read_versions(self, table: str, schema: StructType, versions: list[int]) -> DataFrame:
        """Return everything that some versions wrote of a table, with the version as `v`."""
        base = f"{self.root}/{table}"
        kept = [f for f in schema.fields if f.name != "day"]
        folders = [StructField("v", LongType()), StructField("day", DateType())]
        reader = self.spark.read.schema(StructType([*kept, *folders])).option("basePath", base)
        return reader.parquet(*[f"{base}/v={v}" for v in versions])

    def begin(self) -> "TableTransaction":
        """Start the next version."""
        return TableTransaction(self, self.snapshot)

    def prune(self) -> None:
        """Remove what no kept snapshot refers to, where the session can remove files at all."""
        while len(self.history) > KEPT:
            oldest = self.history.pop(0)
            needed = set().union(*(s.folders() for s in self.history))
            gone = [f"{t}/v={v}" for t, v in oldest.folders() - needed]
            _remove(self.spark, [f"{self.root}/{p}" for p in (*gone, _log(oldest.version))])


class TableTransaction:
    """One version in the making. Nothing of it is valid before `commit`."""

    def __init__(self, store: TableStore, former: Snapshot) -> None:
        self.store = store
        #: What the tables are for the rest of this step.
        self.draft = former.following()
        #: Where this step wrote each table, and how many rows.
        self._folders: dict[str, int] = {}
        self._counts: dict[str, Observation] = {}

    def read(self, table: str, schema: StructType, since: date | None = None) -> DataFrame:
        """Return a table's rows with what this step wrote so far."""
        return self.store.read_as_of(self.draft, table, schema, since)

    def append(self, table: str, rows: DataFrame) -> None:
        """Add settled rows, and put the ones without a day in place of the former such."""
        self._write(table, self.draft.folder, rows)
        self.draft.add(table, VersionPart(self.draft.folder))
        self.draft.unsettled[table] = self.draft.folder

    def replace(self, table: str, rows: DataFrame, since: date) -> None:
        """Put rows in place of everything from a day on."""
        self._write(table, self.draft.folder, rows)
        self.draft.cut(table, since)
        self.draft.add(table, VersionPart(self.draft.folder, since=since))

    def carry(self, table: str, rows: DataFrame) -> None:
        """Put rows in place of a table that has no days."""
        self._write(table, self.draft.folder, rows.withColumn("day", F.lit(None).cast("date")))
        self.draft.unsettled[table] = self.draft.folder

    def written(self, table: str, schema: StructType) -> DataFrame:
        """Return what this step wrote of a table."""
        found = self.store.read_versions(table, schema, [self._folders[table]])
        return found.select(*schema.fieldNames())

    def rewrite(self, table: str, rows: DataFrame) -> None:
        """Put rows made of what this step appended to a table in place of that."""
        self._write(table, self.draft.merged_folder, rows)
        self.draft.put(
            table, [VersionPart(self.draft.folder)], VersionPart(self.draft.merged_folder)
        )
        self.draft.unsettled[table] = self.draft.merged_folder

    def merge(self, table: str, schema: StructType) -> None:
        """Merge versions of a table when there are many; a row is merged only a few times."""
        parts = self.draft.parts.get(table, ())
        if self._folders[table] == self.draft.merged_folder:
            return
        for level, group in groupby(parts, key=lambda p: p.level):
            run = list(group)
            if len(run) >= MERGE_AT:
                rows = self.store.read_versions(table, schema, [p.version for p in run])
                rows = rows.where(F.col("day").isNotNull()).select(*schema.fieldNames())
                self._save(table, self.draft.merged_folder, rows.coalesce(1))
                self.draft.put(table, run, VersionPart(self.draft.merged_folder, level + 1))
                return

    def commit(self, seq: int, horizon: datetime | None) -> Snapshot:
        """Make the version valid, all at once."""
        self.draft.seq, self.draft.horizon = seq, horizon
        line = self.store.spark.range(1).select(F.lit(self.draft.to_json()).alias("value"))
        path = f"{self.store.root}/{_log(self.draft.version)}"
        line.coalesce(1).write.mode("overwrite").text(path)
        self.store.history.append(self.draft)
        self.store.written = self.counts
        self.store.prune()
        return self.draft

    def _write(self, table: str, folder: int, rows: DataFrame) -> None:
        # Counted on their way to the files: reading them again would be a query for each table.
        count = self._counts[table] = Observation()
        self._save(table, folder, rows.observe(count, F.count(F.lit(1)).alias("rows")))

    def _save(self, table: str, folder: int, rows: DataFrame) -> None:
        path = f"{self.store.root}/{table}/v={folder}"
        rows.write.mode("overwrite").partitionBy("day").parquet(path)
        self._folders[table] = folder

    @property
    def counts(self) -> dict[str, int]:
        """How many rows this step wrote of each table."""
        return {table: count.get["rows"] for table, count in self._counts.items()}


def nothing(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return no rows, in a way that lets Spark leave out what is made of them."""
    nulls = (f"cast(null as {f.dataType.simpleString()}) as {f.name}" for f in schema.fields)
    return spark.sql(f"select {', '.join(nulls)} where false")


def _log(version: int) -> str:
    return f"log/{version:012d}"


def _counts(part: VersionPart, since: date | None) -> Column:
    """Whether a settled row of a version counts."""
    counts = (F.col("v") == part.version) & F.col("day").isNotNull()
    if since is not None:
        counts &= F.col("day") >= F.lit(since)
    if part.until is not None:
        counts &= F.col("day") < F.lit(part.until)
    return counts


def _remove(spark: SparkSession, paths: list[str]) -> None:
    """Remove folders through the session's own file systems; a Connect session has none."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        return
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    for each in paths:
        path = jvm.org.apache.hadoop.fs.Path(each)
        path.getFileSystem(settings).delete(path, True)
