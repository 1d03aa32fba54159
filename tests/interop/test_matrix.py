"""The matrix: a client of every dialect with a worker of every dialect, case by case.

The table of results is written to `build/matrix.md`; `docs/matrix.md` has to show the same.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.harness import ROOT, until
from tests.interop.matrix_stage import CREW, VALUES, Stage
from tests.interop.matrix_table import (
    CLIENTS,
    HALF,
    NO_CANCEL,
    PAIRS,
    SILENT,
    WORKERS,
    expected,
    table,
)

from dragoman import DragomanError
from dragoman.dialects.peer_sides import Unsupported
from dragoman.sdk.errors import Cancelled, Expired, JobFailed, Unreachable

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

RESULTS: dict[tuple[str, str], dict[str, str]] = {}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("matrix"))
    yield stage
    stage.end()
    write_table()


def note(caller: str, worker: str, case: str, words: str = "ok") -> None:
    RESULTS.setdefault((caller, worker), {})[case] = words


def write_table() -> None:
    target = ROOT / "build" / "matrix.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text(table(RESULTS))


@pytest.mark.parametrize(("caller", "worker"), PAIRS)
def test_values_of_every_type_and_a_mebibyte_cross(stage: Stage, caller: str, worker: str) -> None:
    client = stage.clients[caller]
    for value in VALUES:
        assert client.call(f"mx-{worker}", "echo", [value], timeout=30) == [value]
    note(caller, worker, "values")
    size = 2**19 if worker in HALF else 2**20
    large = bytes(range(256)) * (size // 256)
    assert client.call(f"mx-{worker}", "echo", {"b": large}, timeout=30) == {"b": large}
    note(caller, worker, "1 MiB", "ok" if size == 2**20 else "512 KiB")


@pytest.mark.parametrize(("caller", "worker"), PAIRS)
def test_failures_and_unknown_tasks_are_told_by_name(
    stage: Stage, caller: str, worker: str
) -> None:
    client = stage.clients[caller]
    for task, case, words in (
        ("refuse", "failure", "refused"),
        ("no_such", "unknown task", "no_such"),
    ):
        if caller in SILENT:
            with pytest.raises((Expired, Unreachable)):
                client.call(f"mx-{worker}", task, timeout=0.5)
            note(caller, worker, case, "silence")
        else:
            with pytest.raises(JobFailed, match=words):
                client.call(f"mx-{worker}", task, timeout=20)
            note(caller, worker, case)


@pytest.mark.parametrize(("caller", "worker"), PAIRS)
def test_a_job_that_takes_too_long_is_ended(stage: Stage, caller: str, worker: str) -> None:
    started = time.monotonic()
    with pytest.raises((Expired, Unreachable)):
        stage.clients[caller].call(f"mx-{worker}", "slow", 3.0, timeout=0.5)
    assert time.monotonic() - started < 15
    note(caller, worker, "timeout")


@pytest.mark.parametrize(("caller", "worker"), PAIRS)
def test_200_calls_at_once_are_answered_to_the_right_callers(
    stage: Stage, caller: str, worker: str
) -> None:
    found = stage.clients[caller].map(
        f"mx-{worker}", "echo", [{"value": n} for n in range(200)], window=200, timeout=60
    )
    assert list(found) == list(range(200))
    note(caller, worker, "200 at once")


@pytest.mark.parametrize(("caller", "worker"), [p for p in PAIRS if p[0] not in NO_CANCEL])
def test_a_running_job_is_cancelled(stage: Stage, caller: str, worker: str) -> None:
    job = stage.clients[caller].submit(f"mx-{worker}", "patient", timeout=60)
    stage.wait_until_running(f"mx-{worker}", "patient")
    try:
        said = job.cancel(20)
    except Unsupported:
        note(caller, worker, "cancel", "none")
        return
    with pytest.raises(Cancelled):
        job.result(20)
    note(caller, worker, "cancel", "confirmed" if "confirm" not in said else "unconfirmed")


@pytest.mark.parametrize("worker", WORKERS)
def test_a_killed_workers_jobs_go_to_another(stage: Stage, tmp_path: Path, worker: str) -> None:
    """All clients at once: each has a job on the worker that dies."""
    service = f"mx-death-{worker}"
    first = stage.worker(worker, service)
    stage.wait_for(service)
    trace = tmp_path / "trace"
    answers: dict[str, Any] = {}

    def ask(caller: str) -> None:
        try:
            answers[caller] = stage.clients[caller].call(
                service, "noted", str(trace), 100.0, timeout=120
            )
        except DragomanError as error:
            answers[caller] = error

    asking = [threading.Thread(target=ask, args=(caller,)) for caller in CLIENTS]
    for thread in asking:
        thread.start()
    until(
        lambda: trace.exists() and len(trace.read_text().split()) == len(CLIENTS),
        "every job has begun",
        30,
    )
    # There before the first one goes: some dialects refuse at once what nobody serves.
    second = stage.worker(worker, service)
    stage.wait_for(service, workers=1 + CREW.get(worker, 1))
    first.kill()
    for thread in asking:
        thread.join(150)
    assert answers == dict.fromkeys(CLIENTS, second.pid)
    for caller in CLIENTS:
        note(caller, worker, "death")


def test_what_was_found_is_what_the_documentation_shows() -> None:
    """Of the cases that were run: one test alone leaves the others open."""
    for pair, cells in RESULTS.items():
        if pair[0] in NO_CANCEL:
            cells["cancel"] = "no word"
        assert cells.items() <= expected(*pair).items(), pair
