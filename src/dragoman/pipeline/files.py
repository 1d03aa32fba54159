"""Parquet files of a table, read and written through pyarrow: wherever pyarrow reaches."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dragoman.pipeline.delta import DataFile
from dragoman.pipeline.storage import join, make_parent, open_filesystem

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that the files of a table have."""
    found: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return found


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


def write_rows(
    root: str, table: str, folder: str, rows: pa.Table, name: str = "part-00000.parquet"
) -> None:
    """Write rows as one file for each value of their column `day`."""
    system, base = open_filesystem(join(root, table))
    content = rows.drop_columns(["day"])
    days = rows["day"].combine_chunks()
    for day in days.unique().to_pylist():
        text = "__HIVE_DEFAULT_PARTITION__" if day is None else day.isoformat()
        same = pc.is_null(days) if day is None else pc.equal(days, day)
        part = content.filter(same) if len(days.unique()) > 1 else content
        path = f"{base}/{folder}/day={text}/{name}"
        make_parent(system, path)
        pq.write_table(part, path, filesystem=system, compression="zstd")
