"""SQL over the tables of one step by DuckDB, with the few functions of Spark that reports use."""

import re
import threading
from decimal import Decimal
from types import TracebackType
from typing import Final

import duckdb
import pyarrow as pa

from dragoman.pipeline.delta import DeltaLog, TablesDamaged
from dragoman.pipeline.files import arrow_schema
from dragoman.pipeline.queries import Rows
from dragoman.pipeline.snapshot import read_snapshot
from dragoman.pipeline.storage import join
from dragoman.pipeline.tables import TABLES

_GONE: Final = re.compile(r"Object at location (.+?) not found")
#: Spark's names, zone, and places of nulls.
_SETTINGS: Final = """
set timezone = 'UTC';
set default_null_order = 'nulls_first_on_asc_last_on_desc';
create macro unix_micros(t) as epoch_us(t);
create macro regexp_like(text, pattern) as regexp_matches(text, pattern);
"""


def limited(sql: str, limit: int) -> str:
    """Return a query with a limit. Raises ValueError if the text is not one query."""
    statements = duckdb.extract_statements(sql)
    if len(statements) != 1:
        raise ValueError(f"give one query; these are {len(statements)} statements")
    (statement,) = statements
    if statement.type != duckdb.StatementType.SELECT:
        kind = statement.type.name.replace("_", " ")
        raise ValueError(f"only queries can be asked, and this is {kind}; the tables are unchanged")
    # On lines of its own: the text may end with a comment.
    return f"from (\n{statement.query.strip().rstrip(';')}\n) limit {limit}"


def as_spark_shows(rows: Rows) -> Rows:
    """Return rows with Spark's whole numbers, and its name of a count."""
    return [
        {name.replace("count_star()", "count(1)"): _whole(value) for name, value in row.items()}
        for row in rows
    ]


def _whole(value: object) -> object:
    """Return the sum of whole numbers, for which DuckDB has a type of its own, as such."""
    return int(value) if isinstance(value, Decimal) and value == int(value) else value


class DuckQueries:
    """The tables of one folder as views, as of one step: the newest by default."""

    def __init__(self, root: str, version: int | None = None) -> None:
        self.snapshot = read_snapshot(root, version)
        self._lock = threading.Lock()
        self._connection = duckdb.connect()
        self._connection.execute(_SETTINGS)
        for name in TABLES:
            self._connection.register(name, self._dataset(root, name))

    def _dataset(self, root: str, name: str) -> object:
        """Return the files of a table; columns that a query does not name are not read."""
        at = self.snapshot.tables.get(name)
        if at is None:
            empty: pa.Table = arrow_schema(TABLES[name]).empty_table()
            return empty
        return DeltaLog(join(root, name)).require(at).to_pyarrow_dataset()

    def __enter__(self) -> "DuckQueries":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def rows(self, sql: str) -> Rows:
        """Return the rows of a query."""
        # Views belong to one connection, and a connection to one thread at a time.
        with self._lock:
            try:
                found: pa.Table = self._connection.sql(sql).to_arrow_table()
            except duckdb.Error as error:
                # The error of the file's reader, inside of DuckDB's.
                if gone := _GONE.search(str(error)):
                    raise TablesDamaged(f"{gone[1]} is gone") from None
                raise
        return found.to_pylist()
