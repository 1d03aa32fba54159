"""The whole step: the tables agree with plain Python, and a broker's own history is clean."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.oracle import assert_totals
from tests.pipeline.records import export, read_records, rows

from dragoman.core.recovery import fold
from dragoman.pipeline.run import run
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tables import read_table
from dragoman.testing.simulation import Simulation

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]


def test_the_tables_count_what_plain_python_counts(tables: TableStore, planted: Path) -> None:
    found = assert_totals(tables, read_records(planted))
    assert found["jobs"] > 1_000
    assert found["open"] >= 1


def test_the_history_of_a_broker_in_trouble_gives_its_own_counts_and_breaks_no_promise(
    spark: SparkSession, tmp_path: Path
) -> None:
    simulation = Simulation(2)
    assert not simulation.run().failure
    records = [*simulation.server.ledger.read()]
    source = export(tmp_path / "export", records, 500)
    run(spark, source, str(tmp_path / "tables"))
    store = TableStore(spark, str(tmp_path / "tables"))
    found = assert_totals(store, records)
    folded = fold(records)
    assert found["states"] == {s: folded.counts[s] for s in found["states"]}
    assert found["open"] == folded.open_jobs
    assert found["jobs"] == folded.counts["submitted"] > 100
    assert rows(read_table(store, "audit"), "rule", "words") == []
