"""The tables as Spark reads and writes them; `table_state` says which files count.

This module does not know what the tables mean.
"""

from collections.abc import Iterable
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dragoman.pipeline.delta import DataFile, Files
from dragoman.pipeline.places import place_of
from dragoman.pipeline.storage import join
from dragoman.pipeline.table_state import StepState, TableState, since_day


class TableStore(TableState):
    """The tables of one folder, as of one step: the newest by default."""

    def __init__(self, spark: SparkSession, root: str, version: int | None = None) -> None:
        super().__init__(root, version)
        self.spark = spark
        self.place = place_of(spark, self.root)

    def read(self, table: str, schema: StructType, since: date | None = None) -> DataFrame:
        """Return a table's rows: the settled ones from a day on, and all that are not settled."""
        return self.read_files(table, schema, since_day(self.files(table), since))

    def read_files(self, table: str, schema: StructType, files: Iterable[DataFile]) -> DataFrame:
        """Return the rows of some files of a table."""
        base, found = join(self.place.base, table), [file.path for file in files]
        if not found:
            return nothing(self.spark, schema)
        self.place.fetch(join(table, path) for path in found)
        paths = [join(base, path) for path in found]
        reader = self.spark.read.schema(schema).option("basePath", base)
        # The folders of writes are no partitions; other engines would take `write=ID` for one.
        reader = reader.option("ignoreInvalidPartitionPaths", "true")
        return reader.parquet(*paths).select(*schema.fieldNames())

    def forget_old_copies(self) -> None:
        """Delete copies of files that the newest step does not have."""
        self.place.keep(
            join(table, path) for table in self.snapshot.tables for path in self.files(table)
        )

    def begin(self) -> "TableTransaction":
        """Start the next step."""
        return TableTransaction(self)


class TableTransaction(StepState):
    """One step in the making. Nothing of it is valid before `commit`."""

    def __init__(self, store: TableStore) -> None:
        super().__init__(store)
        self.store = store

    def read(self, table: str, schema: StructType, since: date | None = None) -> DataFrame:
        """Return a table's rows with what this step wrote so far."""
        return self.store.read_files(table, schema, self.files(table, since))

    def written(self, table: str, schema: StructType) -> DataFrame:
        """Return the rows of a table that this step wrote."""
        return self.store.read_files(table, schema, self.fresh(table))

    def append(self, table: str, rows: DataFrame) -> None:
        """Add settled rows, and replace the rows without a day."""
        self._put(table, self.settled(table), rows)

    def replace(self, table: str, rows: DataFrame, since: date) -> None:
        """Replace all rows from a day on."""
        self._put(table, self.settled(table, since), rows)

    def carry(self, table: str, rows: DataFrame) -> None:
        """Replace a table that has no days."""
        self._put(table, {}, rows.withColumn("day", F.lit(None).cast("date")))

    def _put(self, table: str, kept: Files, rows: DataFrame) -> None:
        """Write rows; a second time replaces the first, in a folder of its own."""
        folder = self.folder(table)
        target, place = join(table, folder), self.store.place
        rows.write.partitionBy("day").parquet(join(place.base, target))
        place.send(target)
        self.take(table, kept, folder, to_arrow_schema(rows.schema, timezone="UTC"))


def nothing(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return no rows, in a form that lets Spark skip everything that depends on them."""
    nulls = (f"cast(null as {f.dataType.simpleString()}) as {f.name}" for f in schema.fields)
    return spark.sql(f"select {', '.join(nulls)} where false")
