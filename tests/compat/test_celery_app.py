"""The app: names of tasks, routes, shared tasks, periodic tasks."""

from typing import Any

import pytest

from dragoman.compat.celery import Celery, shared_task, signature
from dragoman.compat.celery.schedules import crontab
from dragoman.compat.hints import NotInCompat
from dragoman.sdk.queue_admin import Schedules
from dragoman.testing.harness import LocalBroker


@shared_task
def shared(x: int) -> int:
    return x + 1


@shared_task(name="named")
def other() -> str:
    return "other"


def test_tasks_are_named_after_their_module() -> None:
    app = Celery("proj")
    assert app.task(abs).name == "builtins.abs"
    assert app.task(max, name="most").name == "most"
    assert app.tasks["most"](1, 2) == 2
    assert signature(app.tasks["most"], (1, 2))() == 2


def test_a_shared_task_belongs_to_every_app() -> None:
    app = Celery("late")
    assert f"{__name__}.shared" in app.tasks
    assert (shared(1), shared.s(2)(), other(), shared.name) == (2, 3, "other", f"{__name__}.shared")
    assert "named" in app.tasks


def test_routes_name_queues() -> None:
    app = Celery("routes", task_routes={"feed.*": {"queue": "feeds"}, "web.fetch": "web"})
    assert [app.route(each) for each in ("feed.read", "web.fetch", "x")] == [
        "feeds",
        "web",
        "celery",
    ]
    task = app.task(print, name="feed.print")
    assert task.queue_for({}) == "feeds"
    assert task.queue_for({"queue": "own"}) == "own"
    assert app._queues() >= {"feeds", "celery"}


def test_periodic_tasks_become_schedules_of_the_broker(broker: LocalBroker) -> None:
    app = Celery("beat", broker=broker.url("nfp"))
    add = app.task(lambda x, y: x + y, name="add")
    app.conf.beat_schedule = {
        "every 30 s": {"task": "add", "schedule": 30.0, "args": (16, 16)},
        "monday": {"task": "add", "schedule": crontab(hour=7, minute=30, day_of_week=1)},
    }

    @app.on_after_configure.connect
    def setup(sender: Celery, **kwargs: Any) -> None:
        sender.add_periodic_task(10.0, add.s(1, 2), name="tens")

    names = ["celery.every-30-s", "celery.monday", "celery.tens"]
    assert app.declare_schedules() == names
    schedules = Schedules(app.connected())
    schedules.add("mine", "x", "y", every=60)
    app.conf.beat_schedule = {}
    assert app.declare_schedules() == ["celery.tens"]
    assert sorted(each["name"] for each in schedules.list()) == ["celery.tens", "mine"]
    schedules.remove("mine")
    schedules.remove("celery.tens")
    app.close()


def test_code_that_is_elsewhere_does_not_run_here() -> None:
    with pytest.raises(NotInCompat, match="elsewhere"):
        Celery("x").signature("far.away")()
