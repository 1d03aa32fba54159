"""All tables with their schemas, for queries, reports and comparisons."""

import hashlib
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructType

from dragoman.pipeline import (
    accounting,
    anomalies,
    assignments,
    audit,
    bridges,
    clients,
    events,
    jobs,
    resources,
    service_minutes,
    sessions,
    slo,
    worker_days,
)
from dragoman.pipeline.store import TableStore

TABLES: Final[dict[str, StructType]] = {
    module.TABLE: module.SCHEMA
    for module in (
        events,
        jobs,
        assignments,
        sessions,
        clients,
        resources,
        service_minutes,
        worker_days,
        bridges,
        accounting,
        slo,
        anomalies,
        audit,
    )
}


def read_table(store: TableStore, name: str) -> DataFrame:
    """Return a table's rows in no particular order."""
    return store.read(name, TABLES[name])


def register(store: TableStore) -> None:
    """Register each table as a temporary view under its name."""
    for name in TABLES:
        read_table(store, name).createOrReplaceTempView(name)


def in_order(rows: DataFrame) -> DataFrame:
    """Sort rows by all columns; maps by their entries."""
    keys = [
        F.map_entries(f.name) if isinstance(f.dataType, MapType) else F.col(f.name)
        for f in rows.schema.fields
    ]
    return rows.orderBy(*keys)


def table_bytes(rows: DataFrame) -> bytes:
    """Return the sorted rows as Arrow bytes: equal if and only if the tables are equal."""
    found = in_order(rows).toArrow().combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as writer:
        writer.write_table(found)
    return sink.getvalue().to_pybytes()


def digest(rows: DataFrame) -> str:
    """Return the SHA-256 of `table_bytes`."""
    return hashlib.sha256(table_bytes(rows)).hexdigest()
