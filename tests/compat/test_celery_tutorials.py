"""What Celery's tutorials type, with one import changed, on a real broker."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.compat import celery_tutorial
from tests.compat.celery_tutorial import add, app, mul, xsum

from dragoman.compat.celery import chain, chord, group
from dragoman.testing.harness import LocalBroker


@pytest.fixture(scope="module", autouse=True)
def worker(broker: LocalBroker) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_URL", broker.url("nfp"))
        with ExitStack() as stack:
            for worker in app.make_workers(["celery", "lopri"], own_process_beats=False):
                stack.enter_context(worker)
            yield
        app.close()


def test_first_steps_calling_the_task_and_keeping_results() -> None:
    result = add.delay(4, 4)
    assert result.get(timeout=20) == 8
    assert result.ready()
    assert result.successful()
    failing = add.delay(4, "4")
    with pytest.raises(TypeError, match="unsupported operand"):
        failing.get(timeout=20)
    assert isinstance(failing.get(propagate=False), TypeError)
    assert "unsupported operand" in str(failing.traceback)


def test_first_steps_configuration() -> None:
    app.conf.task_serializer = "json"
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        result_serializer="json",
        timezone="Europe/Oslo",
        enable_utc=True,
    )
    assert app.conf.timezone == "Europe/Oslo"
    app.conf.timezone = "UTC"


def test_next_steps_calling_tasks() -> None:
    assert add(2, 2) == 4
    assert add.apply_async((2, 2)).get(timeout=20) == 4
    res = add.apply_async((2, 2), queue="lopri", countdown=0.1)
    assert res.get(timeout=20) == 4
    res = add.delay("2", 2)
    with pytest.raises(TypeError):
        res.get(timeout=20)
    assert res.failed()
    assert not res.successful()
    assert res.state == "FAILURE"
    assert app.AsyncResult(res.id).state == "FAILURE"


def test_next_steps_signatures_and_partials() -> None:
    assert add.signature((2, 2), countdown=0.1).delay().get(timeout=20) == 4
    s1 = add.s(2, 2)
    assert s1.delay().get(timeout=20) == 4
    s2 = add.s(2)
    assert s2.delay(8).get(timeout=20) == 10
    assert add.s(2, 2)() == 4


def test_next_steps_groups() -> None:
    wanted = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]
    assert group(add.s(i, i) for i in range(10))().get(timeout=20) == wanted
    g = group(add.s(i) for i in range(10))
    result = g(10)
    assert result.get(timeout=20) == [10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
    assert result.ready()
    assert result.completed_count() == 10


def test_next_steps_chains() -> None:
    assert chain(add.s(4, 4) | mul.s(8))().get(timeout=20) == 64
    g = chain(add.s(4) | mul.s(8))
    assert g(4).get(timeout=20) == 64
    assert (add.s(4, 4) | mul.s(8))().get(timeout=20) == 64


def test_next_steps_chords() -> None:
    assert chord((add.s(i, i) for i in range(10)), xsum.s())().get(timeout=20) == 90
    assert (group(add.s(i, i) for i in range(10)) | xsum.s())().get(timeout=20) == 90
    assert chord([add.s(i, i) for i in range(10)])(xsum.s()).get(timeout=20) == 90
    assert (add.s(1, 1) | group(add.s(i) for i in range(3)) | xsum.s())().get(timeout=20) == 9


@pytest.mark.process
def test_the_worker_and_the_caller_of_first_steps_are_two_programs(
    broker: LocalBroker, tmp_path: Path
) -> None:
    tasks = Path(celery_tutorial.__file__).read_text()
    (tmp_path / "tasks.py").write_text(tasks)
    given: dict[str, Any] = {
        "cwd": tmp_path,
        "env": {**os.environ, "DRAGOMAN_URL": broker.url("nfp")},
    }
    command = [sys.executable, "-m", "dragoman.compat.celery", "-A", "tasks"]
    worker = subprocess.Popen(
        [*command, "worker", "--loglevel=INFO", "-Q", "first,second"], **given
    )
    try:
        call = [*command, "call", "tasks.add", "--args=[4, 5]", "-Q", "first"]
        found = subprocess.run(call, capture_output=True, text=True, timeout=50, **given)
        job = found.stdout.splitlines()[-1]
        result = [*command, "result", job]
        found = subprocess.run(result, capture_output=True, text=True, timeout=50, **given)
        assert found.stdout.splitlines()[-1] == "9"
    finally:
        worker.terminate()
        assert worker.wait(30) == 0
