"""What tasks share, and how they get it."""

import asyncio
import os
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.sdk import shared_state
from tests.sdk.shared_state import Database, Settings

from dragoman import Client, JobFailed, Worker
from dragoman.model.content import Call
from dragoman.sdk.lifespan import Lifespan
from dragoman.sdk.tasks import describe_task, make_task
from dragoman.testing.harness import LocalBroker

TYPES = frozenset({Database, Settings})


@pytest.mark.parametrize("function", [shared_state.plain, shared_state.asynchronous])
def test_the_value_is_there_while_the_lifespan_is_entered(function: Any) -> None:
    lifespan = Lifespan(function, [Settings()])
    assert lifespan.types == TYPES
    assert set(lifespan.values) == {Settings}
    asyncio.run(lifespan.enter())
    assert isinstance(lifespan.values[Database], Database)
    assert lifespan.is_entered
    asyncio.run(lifespan.leave())
    assert not lifespan.is_entered


def test_a_lifespan_that_fails_is_not_entered() -> None:
    lifespan = Lifespan(shared_state.broken)
    with pytest.raises(ConnectionError):
        asyncio.run(lifespan.enter())
    assert not lifespan.is_entered


def test_what_tasks_could_not_tell_apart_is_refused() -> None:
    @contextmanager
    def untyped():  # type: ignore[no-untyped-def]
        yield 1

    with pytest.raises(ValueError, match="must say the type of its value"):
        Lifespan(untyped)
    with pytest.raises(ValueError, match="the same type"):
        Lifespan(None, [Settings(), Settings()])
    with pytest.raises(ValueError, match="by the type str; wrap it in a class"):
        Lifespan(None, ["text"])


def test_callers_do_not_see_the_parameters_that_the_worker_sets() -> None:
    described = describe_task(make_task(shared_state.count, types=TYPES))
    assert [one["name"] for one in described["parameters"]] == ["n"]


def test_an_argument_for_such_a_parameter_is_refused() -> None:
    task = make_task(shared_state.with_extras, types=TYPES)
    with pytest.raises(TypeError, match="argument 'db' is set by the worker"):
        task.bind(Call("t", (), {"db": 1}), None)


def test_a_parameter_called_job_with_another_type_is_an_argument() -> None:
    bound = make_task(shared_state.hire).bind(Call("hire", ("cook",)), None)
    assert bound.args == ("cook",)


def offering(broker: LocalBroker, service: str, **options: Any) -> Worker:
    options.setdefault("lifespan", shared_state.plain)
    options.setdefault("provides", [Settings(factor=10)])
    worker = Worker(broker.url("nfp"), service, own_process_beats=False, **options)
    worker.task(shared_state.count)
    worker.task(shared_state.count_async)
    return worker


@pytest.mark.parametrize("lifespan", [shared_state.plain, shared_state.asynchronous])
def test_thread_and_async_tasks_share_one_value(broker: LocalBroker, lifespan: Any) -> None:
    name = f"shared-{lifespan.__name__}"
    with (
        offering(broker, name, lifespan=lifespan),
        Client(broker.url("nfp")) as client,
    ):
        calls = client.options(timeout=20)
        assert calls.call(name, "count", 1) == [10, os.getpid(), os.getpid()]
        assert calls.call(name, "count_async", 1) == [11, os.getpid(), os.getpid()]
        with pytest.raises(JobFailed, match="argument 'db' is set by the worker"):
            calls.call(name, "count", 1, db=2)


@pytest.mark.process
@pytest.mark.parametrize("lifespan", [shared_state.plain, shared_state.asynchronous])
def test_each_task_process_has_a_value_of_its_own(broker: LocalBroker, lifespan: Any) -> None:
    name = f"own-{lifespan.__name__}"
    worker = offering(broker, name, lifespan=lifespan, isolation="process", concurrency=1)
    with worker, Client(broker.url("nfp")) as client:
        calls = client.options(timeout=30)
        used, opened_by, pid = calls.call(name, "count", 1)
        assert (used, opened_by) == (10, pid)
        assert pid != os.getpid()
        assert calls.call(name, "count_async", 1) == [11, pid, pid]


@pytest.mark.process
def test_a_lifespan_is_left_once_by_each_process_that_entered_it(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("LIFESPAN_LOG", str(log))
    worker = Worker(
        broker.url("nfp"),
        "left",
        own_process_beats=False,
        lifespan=shared_state.logged,
        isolation="process",
        concurrency=1,
        max_jobs_per_process=1,
    )
    worker.task(shared_state.pid)
    with worker, Client(broker.url("nfp")) as client:
        pids = {client.options(timeout=30).call("left", "pid") for _ in range(2)}
    lines = Counter(log.read_text().splitlines())
    assert lines == Counter({f"{verb} {pid}": 1 for verb in ("enter", "leave") for pid in pids})


def test_a_worker_whose_lifespan_fails_does_not_start_and_says_why(broker: LocalBroker) -> None:
    worker = offering(broker, "broken", lifespan=shared_state.broken)
    with pytest.raises(ConnectionError, match="no database"):
        worker.start()
