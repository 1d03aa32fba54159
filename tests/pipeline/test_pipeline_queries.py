import pytest

from dragoman.pipeline.embedded.queries import DuckQueries
from dragoman.pipeline.queries import AUDIT, SparkQueries
from dragoman.pipeline.store import TableStore

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def test_both_engines_list_the_breaches_in_one_order(tables: TableStore) -> None:
    found = SparkQueries(tables)
    assert found.snapshot == tables.snapshot
    rows = [row["rule"] for row in found.rows(AUDIT)]
    with DuckQueries(tables.root) as other:
        assert [row["rule"] for row in other.rows(AUDIT)] == rows
    assert rows == sorted(rows)
    assert len(rows) == 10
