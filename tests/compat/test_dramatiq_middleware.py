from typing import Any

import pytest

from dragoman.compat.dramatiq import DragomanBroker, Middleware
from dragoman.compat.dramatiq.middleware import CurrentMessage, Retries, WorkerHooks
from dragoman.compat.hints import NotInCompat
from dragoman.model.content import Answer, Call


class Noted(Middleware):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def before_process_message(self, broker: Any, message: Any) -> None:
        self.seen.append(f"before {message}")

    def after_process_message(
        self, broker: Any, message: Any, *, result: Any = None, exception: Any = None
    ) -> None:
        self.seen.append((message, result, exception))


def test_hooks_get_message_result_and_exception() -> None:
    noted, error = Noted(), ValueError()
    job: Any = "m"
    broker = DragomanBroker(middleware=[Retries(max_retries=3), noted])
    make_message: Any = lambda job, call: job  # noqa: E731
    hooks = WorkerHooks(broker, make_message)
    hooks.before_job(job, Call())
    hooks.after_job(job, Call(), Answer(3))
    hooks.on_failure(job, Call(), error)
    assert noted.seen == ["before m", ("m", 3, None), ("m", None, error)]


def test_what_is_there_by_name_only_says_what_to_write() -> None:
    with pytest.raises(NotInCompat, match="pass what the actor needs"):
        CurrentMessage.get_current_message()
