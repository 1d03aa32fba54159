"""The tables that SQL can name: those of `dragoman pipeline`, and registered files."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tables import TABLES, register
from dragoman.spark.error_text import explain
from dragoman.spark.settings import Data

log = structlog.get_logger("dragoman.spark")


def read_data(session: SparkSession, data: Data, columns: StructType | None = None) -> DataFrame:
    """Return files as a frame."""
    reader = session.read.format(data.format).options(**data.options)
    if columns is not None or data.columns:
        reader = reader.schema(columns or data.columns)
    return reader.load(data.path)


class Views:
    """Registers the tables of a session, and again when there is new data."""

    def __init__(
        self,
        session: SparkSession,
        data: Mapping[str, Data],
        tables: str = "",
        refresh: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session = session
        self._data = data
        self._tables = tables
        self._refresh = refresh
        self._clock = clock
        self._lock = threading.Lock()
        self._checked_at = float("-inf")
        self._version = -1
        #: Schemas are inferred once: reading the files each time would be slow.
        self._columns: dict[str, StructType] = {}
        if both := sorted({*data} & {*self._pipeline_tables()}):
            raise ValueError(f"the pipeline has tables called {', '.join(both)}; rename the data")

    def _pipeline_tables(self) -> list[str]:
        return [*TABLES] if self._tables else []

    def names(self) -> list[str]:
        """Return the names of all tables."""
        return sorted([*self._pipeline_tables(), *self._data])

    def listing(self) -> list[dict[str, Any]]:
        """Return name, kind and format of every table."""
        own = [{"name": name, "kind": "pipeline", "format": "parquet"} for name in TABLES]
        data = [
            {"name": name, "kind": "data", "format": each.format}
            for name, each in self._data.items()
        ]
        return sorted([*(own if self._tables else []), *data], key=lambda row: row["name"])

    def open(self) -> None:
        """Register every table. Raises ValueError for data that cannot be read."""
        self._register_tables()
        for name, data in self._data.items():
            try:
                frame = read_data(self.session, data)
            except PySparkException as error:
                raise ValueError(f"table {name}: {explain(error)}") from None
            self._columns[name] = frame.schema
            frame.createOrReplaceTempView(name)
        self._checked_at = self._clock()

    def renew(self, at_once: bool = False) -> None:
        """Register new data, if the last check is more than `refresh` seconds ago."""
        with self._lock:
            if not at_once and self._clock() - self._checked_at < self._refresh:
                return
            self._register_tables()
            for name, data in self._data.items():
                self._register(name, data)
            self._checked_at = self._clock()

    def _register(self, name: str, data: Data) -> None:
        try:
            frame = read_data(self.session, data, self._columns[name])
        except PySparkException as error:
            # The old view stays; a query of it fails with Spark's reason.
            log.warning("cannot read the table", table=name, reason=explain(error))
        else:
            frame.createOrReplaceTempView(name)

    def _register_tables(self) -> None:
        if not self._tables:
            return
        store = TableStore(self.session, self._tables)
        if store.snapshot.version != self._version:
            register(store)
            self._version = store.snapshot.version

    def columns(self, name: str) -> list[dict[str, object]]:
        """Describe a table's columns. Raises KeyError for an unknown table."""
        if name not in self.names():
            raise KeyError(name)
        return described(self.session.table(name).schema)


def described(schema: StructType) -> list[dict[str, object]]:
    """Return a schema as rows."""
    return [
        {"name": f.name, "type": f.dataType.simpleString(), "nullable": f.nullable}
        for f in schema.fields
    ]
