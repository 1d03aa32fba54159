import shutil
from pathlib import Path

import duckdb
import pytest
from tests.pipeline.records import History, export

from dragoman.pipeline.delta import TablesDamaged
from dragoman.pipeline.embedded.queries import DuckQueries, limited
from dragoman.pipeline.embedded.run import run_embedded
from dragoman.pipeline.maintenance import vacuum
from dragoman.pipeline.queries import AUDIT
from dragoman.pipeline.snapshot import read_snapshot


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Tables of two steps, with one job each."""
    history = History()
    history.join("w1")
    for n in range(2):
        job = history.submit(f"j{n}")
        history.dispatch(job)
        history.end(job)
    export(tmp_path / "export", history.records, 4)
    for _ in range(2):
        run_embedded(str(tmp_path / "export"), str(tmp_path / "tables"), most_rows=4)
    return str(tmp_path / "tables")


def test_the_tables_are_views_as_of_a_step(root: str) -> None:
    with DuckQueries(root) as newest, DuckQueries(root, 1) as first:
        assert newest.rows("select count(*) as n from jobs") == [{"n": 2}]
        assert first.rows("select count(*) as n from jobs") == [{"n": 1}]
        assert newest.rows(AUDIT) == []


def test_functions_of_spark_mean_the_same(root: str) -> None:
    sql = "select unix_micros(timestamptz '1970-01-01 00:00:01+00') as us, regexp_like('ab', '^A')"
    with DuckQueries(root) as tables:
        (row,) = tables.rows(f"{sql} as found")
    assert row == {"us": 1_000_000, "found": False}


def test_tables_that_were_never_written_are_empty(tmp_path: Path) -> None:
    with DuckQueries(str(tmp_path)) as tables:
        assert tables.rows("select * from jobs") == []


@pytest.mark.parametrize(
    "sql", ["select 1 as n", "select 1 as n;", "select 1 as n -- one", "with x as (from y) from x"]
)
def test_a_query_is_limited_whatever_it_ends_with(sql: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("create table y as select * from (values (1), (2)) t(n)")
        assert connection.sql(limited(sql, 1)).fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("drop table jobs", "this is DROP; the tables are unchanged"),
        ("insert into jobs select * from jobs", "this is INSERT"),
        ("copy jobs to 'x.csv'", "this is COPY"),
        ("select 1; select 2", "give one query; these are 2 statements"),
        (" -- nothing", "give one query; these are 0 statements"),
    ],
)
def test_what_is_not_one_query_is_refused_by_its_name(sql: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        limited(sql, 1)


def test_a_table_that_is_gone_is_no_empty_table(root: str) -> None:
    shutil.rmtree(Path(root, "jobs"))
    with pytest.raises(TablesDamaged, match=r"names the table .*/jobs, and it is gone"):
        DuckQueries(root)
    with pytest.raises(TablesDamaged, match="/jobs, and it is gone"):
        vacuum(root)


def test_a_file_that_is_gone_is_named(root: str) -> None:
    for path in Path(root, "jobs").rglob("*.parquet"):
        path.unlink()
    with (
        DuckQueries(root) as found,
        pytest.raises(TablesDamaged, match=r"jobs/write-.*\.parquet is gone\. Restore them"),
    ):
        found.rows("select count(*) from jobs where state = 'x'")


@pytest.mark.parametrize("name", ["jobs", "steps"])
@pytest.mark.parametrize("size", [0, 60])
def test_a_log_that_cannot_be_read_is_named_in_one_line(root: str, name: str, size: int) -> None:
    for path in Path(root, name, "_delta_log").glob("*.json"):
        path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(TablesDamaged, match=f"the log of .*/{name} cannot be read") as raised:
        DuckQueries(root)
    assert "\n" not in str(raised.value)


def test_a_file_in_place_of_the_tables_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tables"
    path.write_text("something else")
    with pytest.raises(NotADirectoryError, match="tables is a file; name a folder"):
        read_snapshot(str(path))
