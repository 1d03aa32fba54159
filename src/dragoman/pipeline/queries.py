"""SQL over the tables, by Spark or by DuckDB: the report and the audit are written once.

Their SQL uses what both engines know. Every table is a view under its name. Besides standard SQL
there are `unix_micros`, `regexp_like` and `percentile_cont(...) within group (order by ...)`.
"""

from typing import Any, Final, Protocol

from dragoman.pipeline.snapshot import Snapshot
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tables import register

Rows = list[dict[str, Any]]
#: All breaches, in a fixed order.
AUDIT: Final = (
    "select * from audit order by rule, seqs, audit.at, job, service, client, worker, words, day"
)


class TableQueries(Protocol):
    """The tables of one step, as views."""

    @property
    def snapshot(self) -> Snapshot:
        """The step."""

    def rows(self, sql: str) -> Rows:
        """Return the rows of a query."""


class SparkQueries:
    """The tables in a Spark session."""

    def __init__(self, store: TableStore) -> None:
        self.store = store
        register(store)

    @property
    def snapshot(self) -> Snapshot:
        """The step."""
        return self.store.snapshot

    def rows(self, sql: str) -> Rows:
        """Return the rows of a query."""
        found: Rows = self.store.spark.sql(sql).toArrow().to_pylist()
        return found
