"""Where a task runs, and what it may use there."""

from typing import Any

import pytest
from tests.sdk import misbehaving

from dragoman.sdk import isolation
from dragoman.sdk.isolation import TaskLimits, check_limits, isolation_of, parse_size


def test_without_a_wish_only_coroutine_functions_run_on_the_event_loop() -> None:
    assert isolation_of(misbehaving.add, None, "add") == "thread"
    assert isolation_of(misbehaving.later, None, "later") == "async"
    assert isolation_of(misbehaving.pieces, None, "pieces") == "async"


@pytest.mark.parametrize("wanted", ["thread", "process"])
def test_a_wish_wins_also_for_coroutine_functions(wanted: Any) -> None:
    assert isolation_of(misbehaving.later, wanted, "later") == wanted


@pytest.mark.parametrize(
    ("function", "wanted", "text"),
    [
        (misbehaving.add, "async", "needs an `async def` function"),
        (lambda: 1, "process", "move it to the top level"),
        (misbehaving.add, "container", "thread, process or async, not 'container'"),
    ],
)
def test_a_function_that_cannot_run_there_is_refused(function: Any, wanted: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        isolation_of(function, wanted, "t")


@pytest.mark.parametrize(
    ("text", "size"), [("512MB", 512 << 20), ("1.5 GiB", 3 << 29), ("64k", 64 << 10), ("7", 7)]
)
def test_sizes_are_written_as_people_do(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_a_size_may_be_a_number_or_missing_but_not_a_word() -> None:
    assert (parse_size(5), parse_size(None)) == (5, None)
    with pytest.raises(ValueError, match="'much' is no size"):
        parse_size("much")


@pytest.mark.parametrize(
    ("limits", "where", "text"),
    [
        (TaskLimits(time=1.0), "thread", "a thread cannot be stopped"),
        (TaskLimits(memory=1), "async", "memory_limit needs isolation='process'"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused(limits: TaskLimits, where: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check_limits(limits, where, "t")
    check_limits(limits, "process", "t")


def test_a_task_process_starts_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    isolation.refuse_to_serve_in_a_task_process()
    monkeypatch.setattr(isolation, "_is_task_process", False)
    isolation.note_task_process()
    with pytest.raises(RuntimeError, match="if __name__ == '__main__'"):
        isolation.refuse_to_serve_in_a_task_process()
