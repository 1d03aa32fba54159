"""One DuckDB connection for one step: macros, tables from files, rows with a table's schema.

Instants are naive timestamps here and always UTC: DuckDB needs no time zones then. Files are read
and written through pyarrow, so every storage that pyarrow reaches will do.
"""

from collections.abc import Iterable, Mapping
from importlib.resources import files
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dragoman.pipeline.delta import DataFile
from dragoman.pipeline.storage import join, make_parent, open_filesystem

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

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


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that the files of a table have."""
    found: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return found


def naive(rows: pa.Table) -> pa.Table:
    """Return rows with instants without a time zone."""
    fields = [
        pa.field(f.name, pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f
        for f in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def read_files(
    root: str,
    table: str,
    schema: StructType,
    found: Iterable[DataFile],
    columns: Iterable[str] | None = None,
) -> pa.Table:
    """Return rows of some files of a table; a column that an older file lacks is null."""
    wanted = arrow_schema(schema)
    if columns is not None:
        wanted = pa.schema([wanted.field(name) for name in columns])
    system, base = open_filesystem(join(root, table))
    pieces = [_read(system, f"{base}/{file.path}", file, wanted) for file in found]
    return pa.concat_tables(pieces) if pieces else wanted.empty_table()


def _read(system: "FileSystem", path: str, file: DataFile, wanted: pa.Schema) -> pa.Table:
    with pq.ParquetFile(path, filesystem=system) as source:
        known = set(source.schema_arrow.names)
        rows = source.read([name for name in wanted.names if name in known])
    columns = [_column(rows, field, file) for field in wanted]
    return pa.Table.from_arrays(columns, schema=wanted)


def _column(rows: pa.Table, field: "pa.Field[Any]", file: DataFile) -> Any:
    if field.name in rows.schema.names:
        return rows[field.name].cast(field.type)
    value = file.day if field.name == "day" else None
    return pa.repeat(pa.scalar(value, field.type), len(rows))


def write_rows(root: str, table: str, folder: str, rows: pa.Table) -> None:
    """Write rows as one file for each value of their column `day`."""
    system, base = open_filesystem(join(root, table))
    content = rows.drop_columns(["day"])
    days = rows["day"].combine_chunks()
    for day in days.unique().to_pylist():
        text = "__HIVE_DEFAULT_PARTITION__" if day is None else day.isoformat()
        same = pc.is_null(days) if day is None else pc.equal(days, day)
        part = content.filter(same) if len(days.unique()) > 1 else content
        path = f"{base}/{folder}/day={text}/part-00000.parquet"
        make_parent(system, path)
        pq.write_table(part, path, filesystem=system, compression="zstd")
