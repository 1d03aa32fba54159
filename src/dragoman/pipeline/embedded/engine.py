"""One DuckDB connection for one step: macros, tables of rows, rows with a table's schema.

Instants are naive timestamps here and always UTC: DuckDB needs no time zones then.
"""

from collections.abc import Mapping
from importlib.resources import files
from types import TracebackType
from typing import Final

import duckdb
import pyarrow as pa
from pyspark.sql.types import StructType

from dragoman.pipeline.files import arrow_schema

#: Spark's type names, as DuckDB calls them.
_TYPES: Final = {
    "string": "varchar",
    "double": "double",
    "array<bigint>": "bigint[]",
    "map<string,bigint>": "map(varchar, bigint)",
}
#: `share_of` is Spark's `percentile` of a sorted list, to the last bit.
_MACROS: Final = """
create macro span_us(a, b) as epoch_us(b) - epoch_us(a);
create macro share_of(v, p) as v[floor((len(v) - 1) * p::double)::bigint + 1]::double
    + (v[ceil((len(v) - 1) * p::double)::bigint + 1]
        - v[floor((len(v) - 1) * p::double)::bigint + 1])::double
    * ((len(v) - 1) * p::double - floor((len(v) - 1) * p::double));
create macro middle(v) as (v[(len(v) - 1) // 2 + 1] + v[len(v) // 2 + 1]) / 2;
create macro tally(names) as map(list_sort(list_distinct(names)),
    list_transform(list_sort(list_distinct(names)),
        lambda one: len(list_filter(names, lambda other: other = one))));
create macro no_earlier(t) as case when t is not null
    then greatest(date_trunc('minute', t), getvariable('since') - interval 1 minute) end;
create macro days_of(a, b) as generate_series(
    greatest(a::date, getvariable('since_day'))::timestamp, b::date::timestamp, interval 1 day);
"""


class DuckEngine:
    """A DuckDB connection in memory, closed after the step."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.connection = duckdb.connect(config=dict(settings or {}))
        self.connection.execute("set default_null_order = 'nulls_first'")
        self.connection.execute("set preserve_insertion_order = false")
        self.connection.execute(_MACROS)

    def __enter__(self) -> "DuckEngine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.close()

    def set(self, **variables: object) -> None:
        """Set variables that the SQL reads with `getvariable`."""
        for name, value in variables.items():
            self.connection.execute(f"set variable {name} = ?", [value])

    def load(self, name: str, rows: pa.Table) -> None:
        """Make a table of rows."""
        self.connection.register("arriving", naive(rows))
        self.connection.execute(f"create temp table {name} as from arriving")
        self.connection.unregister("arriving")

    def run(self, script: str, **names: str) -> None:
        """Run an SQL file of this package; `{name}` in it is replaced."""
        text = files("dragoman.pipeline.embedded").joinpath(script).read_text(encoding="utf-8")
        for name, value in names.items():
            text = text.replace(f"{{{name}}}", value)
        self.connection.execute(text)

    def one(self, sql: str) -> tuple[object, ...]:
        """Return the first row of a query."""
        return tuple(self.connection.execute(sql).fetchall()[0])

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a query."""
        found: pa.Table = self.connection.sql(sql).to_arrow_table()
        return found

    def typed(self, name: str, schema: StructType) -> pa.Table:
        """Return the rows of a table or view, with exactly the columns and types of a schema."""
        casts = ", ".join(
            f'cast("{f.name}" as {_TYPES.get(f.dataType.simpleString(), f.dataType.simpleString())}'
            f') as "{f.name}"'
            for f in schema.fields
        )
        return self.rows(f"from {name} select {casts}").cast(arrow_schema(schema))


def naive(rows: pa.Table) -> pa.Table:
    """Return rows with instants without a time zone."""
    fields = [
        pa.field(f.name, pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f
        for f in rows.schema
    ]
    return rows.cast(pa.schema(fields))
