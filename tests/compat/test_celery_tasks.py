"""Tasks of a Celery app: options, retries, `self`."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dragoman import Client, JobFailed
from dragoman.compat.celery import Celery
from dragoman.compat.celery.exceptions import Ignore, Reject, TaskRevokedError
from dragoman.compat.celery.utils.log import get_task_logger
from dragoman.compat.hints import NotInCompat
from dragoman.model.retry import Retry
from dragoman.testing.harness import LocalBroker

runs: Counter[str] = Counter()


@pytest.fixture(scope="module")
def app(broker: LocalBroker) -> Iterator[Celery]:
    app = Celery("t", broker=broker.url("nfp"))
    app.conf.task_default_queue = "tasks"

    @app.task(bind=True, max_retries=2, default_retry_delay=0.01)
    def shaky(self: Any, name: str, failures: int) -> int:
        runs[name] += 1
        if runs[name] <= failures:
            raise self.retry(exc=ConnectionError("hung up"), countdown=0.02)
        return runs[name]

    @app.task(autoretry_for=(OSError,), retry_kwargs={"max_retries": 3, "countdown": 0.01})
    def automatic(name: str) -> int:
        runs[name] += 1
        if runs[name] < 3:
            raise ConnectionError("hung up")
        if name == "value":
            raise ValueError("never again")
        return runs[name]

    @app.task(bind=True)
    def who(self: Any, job: str) -> list[Any]:
        self.update_state(state="PROGRESS", meta={"done": 1})
        return [self.request.id, list(self.request.args), job]

    @app.task
    def odd(how: str) -> str:
        raise {"ignore": Ignore, "reject": Reject}[how]("so")

    (worker,) = app.make_workers(own_process_beats=False)
    with worker:
        yield app
    app.close()


def task(app: Celery, name: str) -> Any:
    return app.tasks[f"{__name__}.{name}"]


def test_a_task_that_asks_for_a_retry_gets_it(app: Celery) -> None:
    assert task(app, "shaky").delay("a", 2).get(timeout=20) == 3
    with pytest.raises(ConnectionError, match="hung up"):
        task(app, "shaky").delay("b", 3).get(timeout=20)


def test_autoretry_covers_subclasses_and_nothing_else(app: Celery) -> None:
    assert task(app, "automatic").delay("c").get(timeout=20) == 3
    runs["value"] = 5
    with pytest.raises(ValueError, match="never again"):
        task(app, "automatic").delay("value").get(timeout=20)
    assert runs["value"] == 6


def test_a_bound_task_knows_its_request(app: Celery) -> None:
    result = task(app, "who").apply_async(("j",), task_id="my-own-id")
    assert result.get(timeout=20) == ["my-own-id", ["j"], "j"]
    assert [each.event for each in result.job.events() if hasattr(each, "event")] == [
        {"state": "PROGRESS", "meta": {"done": 1}}
    ]
    with pytest.raises(NotInCompat, match="the broker counts attempts"):
        _ = task(app, "who").request.retries


def test_ignore_and_reject_end_a_task(app: Celery) -> None:
    assert task(app, "odd").delay("ignore").get(timeout=20) is None
    with pytest.raises(RuntimeError, match="rejected: so"):
        task(app, "odd").delay("reject").get(timeout=20)


def test_a_task_that_expires_does_not_run(app: Celery) -> None:
    late = task(app, "automatic").apply_async(("e",), queue="nobody", expires=0.05)
    with pytest.raises(TaskRevokedError):
        late.get(timeout=20)
    soon = datetime.now(UTC) + timedelta(seconds=0.1)
    assert task(app, "who").apply_async(("k",), eta=soon).get(timeout=20)[2] == "k"


def ask_until_gone(client: Client, job: str) -> None:
    while True:
        client.job(job).result(20)


def test_a_result_is_given_out_as_long_as_the_configuration_says(app: Celery) -> None:
    app.conf.result_expires = timedelta(seconds=0.2)
    try:
        made = task(app, "who").apply_async(("t",))
        assert made.get(timeout=20) is not None
        with pytest.raises(JobFailed, match="expired"):
            ask_until_gone(app.connected(), made.id)
    finally:
        app.conf.result_expires = None


def test_a_task_runs_here_too() -> None:
    app = Celery("here")
    app.conf.task_always_eager = True

    @app.task
    def half(x: int) -> float:
        if x < 0:
            raise ValueError(x)
        return x / 2

    assert half(4) == half.delay(4).get() == half.s(4).apply().get() == 2
    assert half.delay(-1).failed()
    with pytest.raises(ValueError, match="-1"):
        half.delay(-1).get()
    assert isinstance(half.delay(-1).get(propagate=False), ValueError)
    app.conf.task_eager_propagates = True
    with pytest.raises(ValueError, match="-1"):
        half.delay(-1)


def test_options_without_a_meaning_raise_with_a_hint() -> None:
    app = Celery("hints")

    @app.task(ignore_result=True)
    def some() -> None: ...

    with pytest.raises(NotInCompat, match=r"'link' of apply_async .* write a chain"):
        some.apply_async(link=some.s())
    with pytest.raises(NotInCompat, match=r"'rate_limit'.*rate = 10"):
        app.task(rate_limit="10/s")(print)
    with pytest.raises(NotInCompat, match="serializer 'pickle'"):
        some.apply_async(serializer="pickle")
    with pytest.raises(NotInCompat, match=r"Task.map .* write group"):
        some.map([1])
    with pytest.raises(NotInCompat, match="max_retries=7"):
        some.retry(max_retries=7)
    with pytest.raises(NotInCompat, match="other arguments"):
        some.retry(args=(1,))


def test_retries_follow_the_options_of_the_task() -> None:
    app = Celery("retries")
    assert app.task(abs).retries().times == 0
    assert app.task(max, bind=True).retries() == Retry(3, 180.0, 1.0, 604_800.0)
    backoff = app.task(
        min, autoretry_for=(OSError,), retry_backoff=2, retry_jitter=False, max_retries=None
    )
    assert backoff.retries() == Retry(1000, 2.0, 2.0, 600.0, 0.0)


def test_a_task_has_a_logger() -> None:
    assert get_task_logger("x").name == "celery.task.x"
