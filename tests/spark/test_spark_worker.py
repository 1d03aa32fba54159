"""Spark as a worker, asked by clients of several dialects through a real broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.interop.harness import until
from tests.spark.test_spark_watchdog import ENDLESS, is_idle

from dragoman import Client, JobFailed, Worker
from dragoman.sdk.errors import Cancelled
from dragoman.sdk.files import Files
from dragoman.sdk.jobs import Progress
from dragoman.spark.settings import SparkSettings
from dragoman.spark.worker import SparkTasks, make_worker
from dragoman.testing.harness import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark-worker")


@pytest.fixture(scope="module")
def house(folder: Path) -> Iterator[LocalBroker]:
    (folder / "drop").mkdir()
    files = {"roots": {"drop": folder / "drop"}, "writable": ["drop"]}
    with LocalBroker("nfp", "dcp", "zss", "zss_backend", "http", files=files) as running:
        yield running


def said(folder: Path) -> dict[str, Any]:
    return {
        "data": {"people": {"path": str(folder / "people"), "format": "json"}},
        "limits": {"reply_rows": 10, "rows": 5_000, "seconds": 120},
        "results": {"url": "nf://drop"},
        "pipelines": {
            "count": {
                "description": "Count people.",
                "inputs": {"p": "people"},
                "parameters": {"least": 0},
                "steps": [{"name": "n", "sql": "select count(*) as n from p where age >= :least"}],
                "outputs": {"n": {"path": str(folder / "counted")}},
            },
            "endless": {
                "steps": [{"name": "n", "sql": ENDLESS}],
                "outputs": {"n": {"path": str(folder / "never")}},
            },
            "ask": {
                "inputs": {"p": "people"},
                "steps": [
                    {
                        "name": "asked",
                        "call": {
                            "rows": "p",
                            "service": "birthday",
                            "task": "next",
                            "columns": ["age"],
                            "key": ["name"],
                            "returns": "int",
                        },
                    },
                    {"name": "ages", "sql": "select name, answer.value as age from asked"},
                ],
                "outputs": {"ages": {"path": str(folder / "ages")}},
            },
        },
    }


@pytest.fixture(scope="module")
def worker(spark: SparkSession, house: LocalBroker, folder: Path) -> Iterator[Worker]:
    (folder / "people").mkdir()
    (folder / "people" / "one.json").write_text('{"name":"Ada","age":36}\n{"name":"Bo","age":7}\n')
    settings = SparkSettings.model_validate(said(folder))
    worker, tasks = make_worker(house.url("nfp"), "spark", spark, settings)
    with worker:
        yield worker
    tasks.close()


@pytest.fixture
def client(house: LocalBroker, worker: Worker) -> Iterator[Client]:
    with Client(house.url("nfp")) as client:
        yield client


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "http"])
def test_clients_of_every_dialect_ask_in_sql_with_bound_parameters(
    house: LocalBroker, worker: Worker, dialect: str
) -> None:
    with Client(house.url(dialect)) as client:
        found = client.call(
            "spark",
            "sql",
            query="select name, age from people where name = :who or age < :age order by age",
            args={"who": "Ada' or '1' = '1", "age": 10},
        )
    assert [column["name"] for column in found["columns"]] == ["name", "age"]
    assert found["rows"] == [["Bo", 7]]
    assert found["count"] == 1


def test_parameters_may_go_by_place(client: Client) -> None:
    found = client.call("spark", "sql", "select ? + ?, count(*) from people", [1, 2])
    assert found["rows"] == [[3, 2]]


def test_there_is_a_list_of_what_can_be_asked(client: Client) -> None:
    assert client.call("spark", "tables") == [{"name": "people", "kind": "data", "format": "json"}]
    assert client.call("spark", "describe", table="people") == [
        {"name": "age", "type": "bigint", "nullable": True},
        {"name": "name", "type": "string", "nullable": True},
    ]
    pipelines = client.call("spark", "pipelines")
    assert [each["name"] for each in pipelines] == ["ask", "count", "endless"]
    assert pipelines[1]["description"] == "Count people."
    assert pipelines[1]["parameters"] == {"least": 0}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select nam\nfrom people", r"line 1, column 8: .*`nam`"),
        ("select *\nfrm people x", r"line 2, column \d+: "),
        ("select 1,\n  1/(age - 7) from people", r"line 2, column 3: Division by zero"),
        ("drop view people", "DropView"),
        ("select * from json.`/etc`", "line 1, column 15: unknown table 'json./etc'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(client: Client, query: str, words: str) -> None:
    with pytest.raises(JobFailed, match=words) as error:
        client.call("spark", "sql", query)
    assert "Traceback" not in str(error.value)


def test_unknown_tables_and_pipelines_are_told_with_the_known_ones(client: Client) -> None:
    with pytest.raises(JobFailed, match="unknown table 'x'; known tables: people"):
        client.call("spark", "describe", "x")
    with pytest.raises(
        JobFailed, match="unknown pipeline 'x'; known pipelines: ask, count, endless"
    ):
        client.call("spark", "run", "x")
    with pytest.raises(JobFailed, match="unknown parameter most"):
        client.call("spark", "run", "count", {"most": 1})


def test_a_large_result_is_a_file_that_can_be_fetched(client: Client, tmp_path: Path) -> None:
    found = client.call("spark", "sql", "select id, id * id as square from range(2000) order by id")
    assert found["count"] == 2000
    assert "rows" not in found
    copy = Files(client).fetch(found["file"], tmp_path / "squares.parquet")
    table = pq.read_table(copy)
    assert table.num_rows == 2000
    assert table.column("square")[1999].as_py() == 1999 * 1999


def test_more_than_is_given_out_is_refused(client: Client) -> None:
    with pytest.raises(JobFailed, match="more than 5,000 rows"):
        client.call("spark", "sql", "select * from range(5001)")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select repeat('x', 1500000000)", "want of memory"),
        ("select repeat('x', 2000000)", "a constant of the query has 2,00.* bytes"),
        ("select id from (select explode(sequence(1, 1000000)) as id)", "a constant of the query"),
        ("select length(repeat('x', id + 1500000000)) from range(2)", "want of memory"),
        ("select from_xml('<a/>', 'a int')", "line 1, column 8: there is no function from_xml"),
    ],
)
def test_a_query_that_would_harm_others_is_refused_and_the_worker_goes_on(
    client: Client, query: str, words: str
) -> None:
    with pytest.raises(JobFailed, match=words):
        client.call("spark", "sql", query=query, timeout=120)
    assert client.call("spark", "sql", query="select 1 as n", timeout=60)["rows"] == [[1]]


def test_a_cancelled_query_really_stops(client: Client, spark: SparkSession) -> None:
    job = client.submit("spark", "sql", ENDLESS)
    until(lambda: not is_idle(spark), "the query runs", at_most=60)
    job.cancel(timeout=60)
    with pytest.raises(Cancelled):
        job.result(timeout=60)
    until(lambda: is_idle(spark), "Spark has stopped", at_most=30)


def test_a_query_stops_at_the_deadline_of_its_job(client: Client, spark: SparkSession) -> None:
    job = client.submit("spark", "sql", ENDLESS, timeout=3.0)
    with pytest.raises(JobFailed):
        job.result(timeout=60)
    until(lambda: is_idle(spark), "Spark has stopped", at_most=30)


def test_a_pipeline_runs_by_name_and_tells_its_steps(client: Client, folder: Path) -> None:
    job = client.submit("spark", "run", "count", {"least": 10})
    steps = [e.event.get("step") for e in job.events() if isinstance(e, Progress)]
    found = job.result(timeout=60)
    assert found["outputs"] == {"n": {"rows": 1, "path": str(folder / "counted")}}
    assert pq.read_table(folder / "counted").column("n").to_pylist() == [1]
    assert list(dict.fromkeys(steps)) == ["n", "writing n"]


def test_a_cancelled_pipeline_stops_and_writes_nothing(
    client: Client, spark: SparkSession, folder: Path
) -> None:
    job = client.submit("spark", "run", "endless")
    until(lambda: not is_idle(spark), "the pipeline runs", at_most=60)
    job.cancel(timeout=60)
    with pytest.raises(Cancelled):
        job.result(timeout=60)
    until(lambda: is_idle(spark), "Spark has stopped", at_most=30)
    assert not (folder / "never").exists()


def test_a_step_asks_another_service_of_the_fabric(
    client: Client, house: LocalBroker, folder: Path
) -> None:
    asked: list[int] = []
    birthday = Worker(house.url("dcp"), "birthday", own_process_beats=False)

    def following(age: int) -> int:
        asked.append(age)
        return age + 1

    birthday.task(following, name="next")
    with birthday:
        client.call("spark", "run", "ask", timeout=120)
    ages = pq.read_table(folder / "ages").to_pylist()
    assert sorted(row["age"] for row in ages) == [8, 37]
    assert sorted(asked) == [7, 36]


def test_other_questions_are_answered_while_a_long_one_runs(
    client: Client, spark: SparkSession
) -> None:
    job = client.submit("spark", "sql", ENDLESS)
    until(lambda: not is_idle(spark), "the query runs", at_most=60)
    assert len(client.call("spark", "tables", timeout=60)) == 1
    job.cancel(timeout=60)
    until(lambda: is_idle(spark), "Spark has stopped", at_most=30)


def test_writes_are_run_where_they_are_allowed(spark: SparkSession, tmp_path: Path) -> None:
    class Job:
        id, timeout, is_cancelled = "j", None, False

        def progress(self, event: Any) -> None: ...

    tasks = SparkTasks(spark, SparkSettings(read_only=False))
    context: Any = Job()
    tasks.sql("create temporary view v as select 3 as x", job=context)
    assert tasks.sql("select x from v", job=context)["rows"] == [[3]]
    tasks.close()


def test_a_worker_without_clients_at_its_url_must_be_told_where_files_go(
    spark: SparkSession,
) -> None:
    settings = SparkSettings.model_validate({"results": {"url": "nf://drop"}})
    with pytest.raises(ValueError, match="--files-url"):
        make_worker("ncl://127.0.0.1:4222", "spark", spark, settings)
