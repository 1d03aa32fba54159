"""The programs of README and docs run as they are written, each alone on a fresh broker.

Only addresses are replaced: a test must not take the default ports of its machine.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import Client, Worker
from dragoman.testing.harness import LocalBroker

ROOT = Path(__file__).resolve().parents[1]
#: Pages with programs, and how many each has: a new program needs a test here.
PROGRAMS = {
    "README.md": 1,
    "docs/howto-move-from-celery.md": 2,
    "docs/howto-put-io-around-the-core.md": 1,  # run by test_docs
    "docs/pipeline.md": 2,  # not run: needs segments and tables; see test_pipeline_readers
    "docs/queue.md": 4,
    "docs/security-transports.md": 2,  # not run: needs a broker with certificates
    "docs/services.md": 1,
    "docs/spark.md": 3,
    "docs/tutorial.md": 2,  # run by tests/pages
    "docs/workers.md": 3,
    "docs/workflows.md": 2,
}


def programs(page: str) -> list[str]:
    text = (ROOT / page).read_text()
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(program: str, broker: LocalBroker, **names: Any) -> dict[str, Any]:
    """Run a program with the addresses of a broker; return its names."""

    def address(match: re.Match[str]) -> str:
        return broker.url(match[1].replace("https", "http"))

    text = re.sub(r"\b(nfp|zss|https?)://(?:127\.0\.0\.1|broker):\d+", address, program)
    scope: dict[str, Any] = {"__name__": "program", **names}
    exec(compile(text, "program", "exec"), scope)
    return scope


def test_every_page_has_the_programs_that_are_tested_here() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    found = {str(p.relative_to(ROOT)): len(programs(str(p.relative_to(ROOT)))) for p in pages}
    assert {page: count for page, count in found.items() if count} == PROGRAMS


@pytest.mark.process
@pytest.mark.parametrize("attempt", range(5))
def test_the_worker_and_the_client_of_the_readme_run_on_a_fresh_broker(
    attempt: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalBroker("nfp", "zss", "zss_backend") as broker:
        run(programs("README.md")[0], broker)
    assert "\n5\n" in f"\n{capsys.readouterr().out}"


@pytest.mark.process
def test_the_program_about_resources_runs() -> None:
    with LocalBroker("nfp") as broker:
        worker = Worker(broker.url("nfp"), "net", own_process_beats=False)
        changed = run(programs("docs/services.md")[0], broker, worker=worker)["changed"]
    assert worker.management.on_resources is changed


@pytest.fixture
def scoring() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "http") as broker:
        worker = Worker(broker.url("nfp"), "risk", own_process_beats=False)

        @worker.task
        def score(order_id: int, amount: float) -> float:
            return amount / 2

        mail = Worker(broker.url("nfp"), "mail", own_process_beats=False)
        mail.task(lambda **row: row["customer"], name="send")
        with worker, mail:
            yield broker


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from tests.pipeline.conftest import SMALL

    from dragoman.pipeline.session import open_session

    session = open_session("local[2]", memory="1g", settings=SMALL)
    yield session
    session.stop()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_spark_programs_run(
    scoring: LocalBroker, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.spark.executor_connection import close_connections

    monkeypatch.chdir(tmp_path)
    orders = spark.createDataFrame([(1, 2.0), (2, 4.0)], "order_id int, amount double")
    rows, secured, stream = programs("docs/spark.md")
    expected = [(1, 1.0), (2, 2.0)]
    good = run(rows, scoring, orders=orders)["good"]
    assert sorted(map(tuple, good.collect())) == expected
    run(
        secured,
        scoring,
        orders=orders,
        call_service=run(rows, scoring, orders=orders)["call_service"],
    )
    source = tmp_path / "customers"
    spark.createDataFrame([("anna",)], "customer string").write.parquet(str(source))
    read = spark.readStream.schema("customer string").parquet(str(source))
    shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)
    program = stream.replace(").start()", ").trigger(availableNow=True).start().awaitTermination()")
    run(program, scoring, stream=read, path=str(tmp_path / "checkpoint"))
    close_connections()


@pytest.mark.process
def test_the_programs_of_the_task_queue_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"roots": {"drop": str(tmp_path)}, "writable": ["drop"], "keep_days": {"drop": 7}}
    with LocalBroker("nfp", files=files) as broker:
        retries, limits, values, results = programs("docs/queue.md")
        run(retries, broker)
        assert capsys.readouterr().out.count("sent\n") == 2
        run(limits, broker)
        # The worker's log lines are printed, too.
        assert "['report a', 'report b', 'report c']" in capsys.readouterr().out.splitlines()
        run(values, broker)
        assert "2000000" in capsys.readouterr().out.splitlines()
        assert len(list((tmp_path / "values").iterdir())) == 1
        run(results, broker)
        assert {"1234", "result_gone"} <= set(capsys.readouterr().out.splitlines())


@pytest.mark.process
def test_the_program_of_the_workflows_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with LocalBroker("nfp") as broker:
        run(programs("docs/workflows.md")[0], broker)
    assert [line for line in capsys.readouterr().out.splitlines() if line.isdigit()] == [
        "60",
        "49500",
    ]


@pytest.mark.process
def test_the_worker_of_the_page_about_workers_runs_its_tasks_in_all_three_places(
    tmp_path: Path,
) -> None:
    with LocalBroker("nfp") as broker, Client(broker.url("nfp")) as client:
        text = programs("docs/workers.md")[0].replace("nfp://127.0.0.1:5555", broker.url("nfp"))
        (tmp_path / "tasks.py").write_text(text)
        worker = subprocess.Popen([sys.executable, "tasks.py"], cwd=tmp_path)
        try:
            calls = client.options(timeout=50)
            assert calls.call("media", "add", 1, 2) == 3
            assert calls.call("media", "wait", 0) == "waited"
            assert calls.call("media", "crunch", 4) == 14
        finally:
            worker.terminate()
            assert worker.wait(30) == 0


@pytest.mark.process
def test_the_program_about_what_tasks_share_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with LocalBroker("nfp") as broker:
        run(programs("docs/workers.md")[1], broker)
    assert "6 EUR\n" in capsys.readouterr().out


@pytest.mark.process
def test_the_program_about_middleware_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with LocalBroker("nfp") as broker:
        run(programs("docs/workers.md")[2], broker)
    found = capsys.readouterr().out
    for line in ("submits timed.double", "double begins", "double returned 8"):
        assert line in found.splitlines()


@pytest.mark.process
def test_the_program_about_plans_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with LocalBroker("nfp") as broker:
        run(programs("docs/workflows.md")[1], broker)
    assert "30" in capsys.readouterr().out.splitlines()


@pytest.mark.process
def test_the_programs_for_users_of_celery_and_dramatiq_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with LocalBroker("nfp") as broker:
        for program in programs("docs/howto-move-from-celery.md"):
            run(program, broker)
    found = capsys.readouterr().out.splitlines()
    assert [line for line in found if line.isdigit()] == ["8", "16", "90", "3", "6"]
