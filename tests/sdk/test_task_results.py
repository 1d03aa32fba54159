"""How tasks end: results that dialects can carry, and faults without paths of this machine."""

import sys
from collections.abc import AsyncIterator, Iterator
from datetime import date
from typing import Any

import pytest

from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.sdk.errors import failure
from dragoman.sdk.task_results import MAX_ITEMS, NotInDialect, TryAgain, answer_of
from dragoman.sdk.tasks import Tasks, make_task


class Context:
    """A job whose dialect has streams, or has none."""

    id = "j1"

    def __init__(self, has_streams: bool = True) -> None:
        self.streamed: list[bytes] = []
        self._has_streams = has_streams

    def stream(self, data: bytes) -> None:
        if not self._has_streams:
            raise NotInDialect("no streams")
        self.streamed.append(data)

    def wait_for(self, work: Any) -> Any:
        import asyncio

        return asyncio.run(work)


def fault_of(function: Any) -> str:
    tasks = Tasks()
    tasks.add(make_task(function, "it"))
    fault = tasks.run(Call("it"), Context()).fault
    assert fault is not None
    assert fault.code is FaultCode.TASK_FAILED
    return fault.message


def endless() -> Iterator[int]:
    while True:
        yield 1


def cyclic() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (object, "the result, object, cannot be sent"),
        (cyclic, "nested too deeply, or contains itself"),
        (endless, f"yields more than {MAX_ITEMS:,} items"),
        (lambda: sys.exit(3), "the task called sys.exit(3)"),
        (lambda: sys.exit(), "the task called sys.exit()"),
        (interrupt, "KeyboardInterrupt"),
    ],
)
def test_whatever_a_task_returns_or_raises_is_a_fault(function: Any, expected: str) -> None:
    assert expected in fault_of(function)


def test_a_fault_names_the_error_and_the_users_lines_and_no_path() -> None:
    def broken() -> None:
        int("x")

    message = fault_of(broken)
    first, *frames = message.splitlines()
    assert first == "ValueError: invalid literal for int() with base 10: 'x'"
    assert [frame.partition(" line ")[0] for frame in frames] == [
        "  in broken, test_task_results.py"
    ]
    assert "/" not in message


def test_a_failed_call_of_another_service_is_one_line_of_the_fault() -> None:
    def nested() -> None:
        raise failure(
            "j2", Fault(FaultCode.TASK_FAILED, "ValueError: inner\n  in other, x.py line 1")
        )

    assert fault_of(nested).splitlines()[0] == "JobFailed: job j2 task_failed: ValueError: inner"
    assert "x.py" not in fault_of(nested)


def test_generators_become_lists_and_of_bytes_streams_where_the_dialect_has_them() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"a"
        yield b"b"

    async def later() -> AsyncIterator[int]:
        yield 1
        yield 2

    context, poor = Context(), Context(has_streams=False)
    assert answer_of((day for day in [date(2026, 1, 5)]), context) == Answer(["2026-01-05"])
    assert answer_of(later(), context) == Answer([1, 2])
    assert answer_of(iter(()), context) == Answer([])
    assert (answer_of(pieces(), context), context.streamed) == (Answer(None), [b"a", b"b"])
    assert answer_of(pieces(), poor) == Answer([b"a", b"b"])


def test_a_stream_of_bytes_stays_one() -> None:
    def mixed() -> Iterator[Any]:
        yield b"a"
        yield 1

    assert fault_of(mixed) == "the task streams bytes and then yields int"


def test_a_task_that_wants_to_run_again_is_not_permanent() -> None:
    def busy() -> None:
        raise TryAgain(2.5, "busy")

    tasks = Tasks()
    tasks.add(make_task(busy, retry_on=(OSError,)))
    answer = tasks.run(Call("busy"), Context())
    assert answer.fault is not None
    assert answer.fault.message == "TryAgain: after 2.500 s: busy"
