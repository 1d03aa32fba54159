"""Steps without Spark give the tables of Spark, byte for byte, however the ledger is cut."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, export, rows
from tests.pipeline.test_pipeline_stream import assert_equal

from dragoman.pipeline import control
from dragoman.pipeline.embedded.queries import DuckQueries
from dragoman.pipeline.embedded.run import follow, run_embedded
from dragoman.pipeline.files import read_files
from dragoman.pipeline.run import run
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.synth import synthesise
from dragoman.pipeline.tables import read_table

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.mark.parametrize("most_rows", [1_500, 6_000])
def test_every_table_equals_that_of_spark(
    spark: SparkSession, planted: Path, tables: TableStore, tmp_path: Path, most_rows: int
) -> None:
    follow(str(planted), str(tmp_path), every=None, most_rows=most_rows)
    assert_equal(tables, TableStore(spark, str(tmp_path)))


def test_each_engine_goes_on_where_the_other_ended(
    spark: SparkSession, planted: Path, tables: TableStore, tmp_path: Path
) -> None:
    root = str(tmp_path)
    assert run_embedded(str(planted), root, most_rows=3_000).upto == 3_000
    assert run(spark, str(planted), root).records == 3_000
    assert_equal(tables, TableStore(spark, root))


def test_days_hours_and_anomalies_equal_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    # Slow records: two days and a half, with sessions over midnight and minutes with a history.
    source = tmp_path / "export"
    synthesise(source, 9_000, seed=11, rate=0.04, segment_rows=3_000)
    run(spark, str(source), str(tmp_path / "spark"))
    follow(str(source), str(tmp_path / "duckdb"), every=None, most_rows=3_000)
    found = [TableStore(spark, str(tmp_path / name)) for name in ("spark", "duckdb")]
    assert_equal(found[0], found[1])
    days = {file.day for file in found[1].files("jobs").values() if file.day}
    assert len(days) > 2


def test_one_service_with_nine_tenths_of_the_jobs_gives_equal_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = History()
    for n in range(4):
        history.join(f"w{n}")
    for n in range(400):
        service = "hot" if n % 10 else f"cold-{n // 40}"
        job = history.submit(f"j{n}", 0.5, service=service, client=f"nfp/c{n % 3}")
        history.dispatch(job, f"w{n % 4}")
        history.end(job, f"w{n % 4}", state="failed" if n % 37 == 0 else "succeeded")
    source = export(tmp_path / "export", history.records, 600)
    run(spark, source, str(tmp_path / "spark"))
    follow(source, str(tmp_path / "duckdb"), every=None, most_rows=600)
    found = [TableStore(spark, str(tmp_path / name)) for name in ("spark", "duckdb")]
    assert_equal(found[0], found[1])
    with DuckQueries(str(tmp_path / "spark")) as queries:
        [row] = queries.rows("select avg((service = 'hot')::int) as share from jobs")
    assert row["share"] == 0.9


@pytest.mark.parametrize("cuts", [(), (4,), (4, 9), (2, 3, 7, 11)])
def test_a_worker_that_left_is_forgotten_after_days_in_any_division(
    spark: SparkSession, tmp_path: Path, cuts: tuple[int, ...]
) -> None:
    history, day = History(), 86_400.0
    for name in ("w1", "w2"):
        history.join(name)
        history.leave(name)
    # Up to seven days after the `left` a dispatch breaks the rule, and not one second later.
    for worker, after in (("w1", 7 * day - 4), ("w2", 1.0), ("w1", 1.0), ("w2", 1.0)):
        job = history.submit(f"j{len(history.records)}", after)
        history.dispatch(job, worker)
        history.end(job, worker)
    source = export(tmp_path / "export", history.records, *cuts)
    run(spark, source, str(tmp_path / "spark"))
    follow(source, str(tmp_path / "duckdb"), every=None, most_rows=1)
    found = [TableStore(spark, str(tmp_path / name)) for name in ("spark", "duckdb")]
    assert_equal(found[0], found[1])
    for store in found:
        audit = read_table(store, "audit").where("rule = 'lost_worker_dispatch'")
        assert rows(audit, "worker", "seqs") == [("w1", [2, 6]), ("w2", [4, 9])]
        carried = store.files(control.TABLE).values()
        left = read_files(store.root, control.TABLE, control.SCHEMA, carried)
        assert "left" not in left["kind"].to_pylist()
