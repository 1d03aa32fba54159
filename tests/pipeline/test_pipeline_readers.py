"""Engines that know nothing of the pipeline read the same rows as its own queries."""

from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tables import TABLES, read_table

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


def comparable(table: pa.Table) -> list[str]:
    """Return rows as sorted text, whichever types of text, list and map an engine uses."""
    return sorted(
        repr([(name, _plain(row[name])) for name in sorted(row)]) for row in table.to_pylist()
    )


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        pairs = [(v["key"], v["value"]) if isinstance(v, dict) else v for v in value]
        return sorted(pairs) if pairs and isinstance(pairs[0], tuple) else pairs
    if isinstance(value, dict):
        return sorted(value.items())
    return value.timestamp() if hasattr(value, "timestamp") else value


@pytest.mark.parametrize("name", [*TABLES])
def test_other_engines_read_the_rows_of_a_query(tables: TableStore, name: str) -> None:
    wanted = comparable(read_table(tables, name).toArrow())
    delta = DeltaTable(f"{tables.root}/{name}")
    assert delta.version() == tables.snapshot.tables[name]
    assert comparable(delta.to_pyarrow_table()) == wanted
    assert comparable(pl.read_delta(delta.table_uri).to_arrow()) == wanted
    with duckdb.connect() as engine:
        engine.execute("set timezone = 'UTC'")
        engine.register("found", delta.to_pyarrow_dataset())
        assert comparable(engine.sql("select * from found").to_arrow_table()) == wanted
