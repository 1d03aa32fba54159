import math
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from dragoman.pipeline.embedded.engine import DuckEngine, naive
from dragoman.pipeline.files import arrow_schema
from dragoman.pipeline.schema import columns

SCHEMA = columns("""
    name string
    at timestamp
    tags counts
    day date
""")
NOW = datetime(2026, 1, 5, 12, 0, 0, 5, UTC)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("count", [1, 2, 8, 54])
def test_a_share_lies_on_the_line_between_the_two_nearest_values(count: int, share: float) -> None:
    values = sorted((n * 7919) % 10_007 for n in range(count))
    place = (count - 1) * share
    low, high = values[math.floor(place)], values[math.ceil(place)]
    with DuckEngine() as engine:
        (found,) = engine.one(f"select share_of({values}, {share})")
    assert found == low + (high - low) * (place - math.floor(place))


def test_an_empty_list_has_no_share_and_names_are_counted_in_order() -> None:
    with DuckEngine() as engine:
        assert engine.one("select share_of([]::bigint[], 0.5)") == (None,)
        (found,) = engine.one("select map_entries(tally(['b', 'a', 'b']))")
    assert found == [{"key": "a", "value": 1}, {"key": "b", "value": 2}]


def test_rows_get_the_types_of_their_table() -> None:
    with DuckEngine() as engine:
        engine.load("t", naive(pa.table({"at": pa.array([NOW], pa.timestamp("us", tz="UTC"))})))
        found = engine.typed("(select *, 'n' as name, map {} as tags, null as day from t)", SCHEMA)
    assert found.schema == arrow_schema(SCHEMA)
    assert found["at"].to_pylist() == [NOW]
