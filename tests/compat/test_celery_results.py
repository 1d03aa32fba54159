"""Results by their ids, and of groups."""

from collections.abc import Iterator
from threading import Event

import pytest

from dragoman.compat.celery import AsyncResult, Celery, group
from dragoman.compat.celery.exceptions import TaskRevokedError, TimeoutError
from dragoman.compat.celery.results import EagerResult, GroupResult
from dragoman.compat.hints import NotInCompat
from dragoman.testing.harness import LocalBroker

go_on = Event()


@pytest.fixture(scope="module")
def app(broker: LocalBroker) -> Iterator[Celery]:
    app = Celery("r", broker=broker.url("nfp"))
    app.conf.task_default_queue = "results"
    app.task(divide, name="divide")
    app.task(wait, name="wait")
    (worker,) = app.make_workers(own_process_beats=False)
    with worker:
        yield app
    app.close()


def divide(x: int, y: int) -> float:
    return x / y


def wait() -> bool:
    return go_on.wait(20)


def test_a_result_is_found_by_its_id(app: Celery) -> None:
    sent = app.send_task("divide", (1, 0))
    again = AsyncResult(sent.id, app=app)
    assert again == sent
    assert hash(again) == hash(sent)
    assert str(again) == sent.id
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        again.get(timeout=20)
    assert again.ready()
    assert again.failed()
    assert isinstance(again.result, ZeroDivisionError)
    assert again.traceback is not None
    assert again.traceback.startswith("ZeroDivisionError")


def test_an_unknown_task_is_pending(app: Celery) -> None:
    unknown = app.AsyncResult("nobody-has-this")
    assert unknown.state == "PENDING"
    assert not unknown.ready()
    assert unknown.result is None
    assert unknown.traceback is None


def test_a_task_that_runs_can_be_waited_for_and_revoked(app: Celery) -> None:
    running = app.send_task("wait")
    with pytest.raises(TimeoutError):
        running.get(timeout=0.3)
    assert running.state == "STARTED"
    go_on.set()
    assert running.get(timeout=20)
    revoked = app.send_task("divide", (1, 1), countdown=60)
    app.control.revoke(revoked.id)
    with pytest.raises(TaskRevokedError):
        revoked.get(timeout=20)
    assert revoked.state == "REVOKED"
    with pytest.raises(NotInCompat, match="dragoman workers"):
        app.control.ping()


def test_a_group_tells_how_many_have_ended(app: Celery) -> None:
    found = group(app.signature("divide", (6, n)) for n in (1, 2, 0))()
    assert found[0].get(timeout=20) == 6
    assert isinstance(found.get(timeout=20, propagate=False)[2], ZeroDivisionError)
    assert (len(found), found.ready(), found.failed(), found.successful()) == (3, True, True, False)
    assert found.completed_count() == 2
    assert [each.state for each in found] == ["SUCCESS", "SUCCESS", "FAILURE"]


def test_what_a_result_does_not_have_raises_with_a_hint(app: Celery) -> None:
    result = app.AsyncResult("x")
    for name in ("parent", "children"):
        with pytest.raises(NotInCompat, match="dragoman why JOB"):
            getattr(result, name)


def test_a_result_of_here_looks_like_the_others() -> None:
    good, bad = EagerResult("1", 2), EagerResult("2", None, ValueError("no"))
    both = GroupResult([good, bad])
    assert both.ready()
    assert both.completed_count() == 1
    assert (good.state, good.result, bad.state) == ("SUCCESS", 2, "FAILURE")
    assert good.ready()


def test_a_result_of_here_has_no_job_and_cannot_be_revoked() -> None:
    good, bad = EagerResult("1", 2), EagerResult("2", None, ValueError("no"))
    good.revoke(terminate=True)
    assert (good.successful(), good.failed(), good.traceback) == (True, False, None)
    assert str(bad.traceback).strip() == "ValueError: no"
    with pytest.raises(NotInCompat, match="the job of a task that ran here"):
        _ = good.job
