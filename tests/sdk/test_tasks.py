"""Tasks are plain typed functions; every failure of one is a fault with a message."""

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from dragoman.model.content import Answer, Call
from dragoman.sdk.context import JobContext
from dragoman.sdk.tasks import ForwardRequested, TaskFailed, Tasks, make_task, tasks_of


@dataclass
class Point:
    x: int
    y: int = 0


def run(function: Any, *args: Any, context: Any = None, **kwargs: Any) -> Answer:
    tasks = Tasks()
    tasks.add(make_task(function, "it"))
    return tasks.run(Call("it", args, kwargs), context)


def message_of(answer: Answer) -> str:
    assert answer.fault is not None
    return answer.fault.message


def test_arguments_become_what_the_annotations_ask_for() -> None:
    def norm(p: Point) -> int:
        return p.x + p.y

    assert run(norm, p={"x": 3}).value == 3
    assert run(norm, {"x": 3, "y": 4}).value == 7


def test_results_become_plain_values_and_bytes_stay_bytes() -> None:
    assert run(lambda: Point(1, 2)).value == {"x": 1, "y": 2}
    assert run(lambda: {"b": b"\0"}).value == {"b": b"\0"}
    assert run(lambda: b"raw").raw == b"raw"


@pytest.mark.parametrize(
    ("args", "expected"),
    [((), "missing"), (("x",), "argument 'n'"), ((1, 2), "too many")],
)
def test_wrong_arguments_are_a_fault_for_the_caller(args: tuple[Any, ...], expected: str) -> None:
    def double(n: int) -> int:
        return 2 * n

    assert expected in message_of(run(double, *args))


def test_an_unknown_task_names_what_is_offered() -> None:
    tasks = Tasks()
    tasks.add(make_task(lambda: 1, "one"))
    answer = tasks.run(Call("two"), None)
    assert "'two'" in message_of(answer)
    assert "one" in message_of(answer)


def test_names_are_found_whatever_their_case() -> None:
    tasks = Tasks()
    tasks.add(make_task(lambda: 1, "showAll"))
    assert tasks.run(Call("SHOWALL"), None).value == 1


def test_a_fallback_takes_raw_bytes() -> None:
    tasks = Tasks()

    def echo(job: JobContext) -> str:
        return "raw"

    tasks.fallback = make_task(echo)
    assert tasks.run(Call(raw=b"x"), object()).value == "raw"


def test_a_raw_request_is_one_argument_and_its_parts_are_several() -> None:
    tasks = Tasks()

    def count(*parts: bytes) -> int:
        return len(parts)

    tasks.fallback = make_task(count)
    assert tasks.run(Call(raw=b"x"), None).value == 1
    assert tasks.run(Call(args=(b"x", b"y")), None).value == 2


def test_an_exception_is_a_fault_with_its_traceback_and_task_failed_has_only_its_message() -> None:
    def broken() -> None:
        raise RuntimeError("boom")

    def refused() -> None:
        raise TaskFailed("no such host")

    assert "RuntimeError: boom" in message_of(run(broken))
    assert message_of(run(refused)) == "no such host"


def test_a_forward_passes_through() -> None:
    def forward() -> None:
        raise ForwardRequested("other", Call("next"))

    with pytest.raises(ForwardRequested):
        run(forward)


def test_a_task_with_a_job_parameter_gets_the_context() -> None:
    def who(job: object, n: int) -> object:
        return [job == "ctx", n]

    assert run(who, n=1, context="ctx").value == [True, 1]


def test_positional_arguments_skip_the_context_wherever_it_stands() -> None:
    def first(job: object, n: int, m: int = 0) -> object:
        return [job, n, m]

    def last(n: int, *rest: int, job: object, **more: int) -> object:
        return [job, n, *rest, more]

    assert run(first, 1, context="ctx").value == ["ctx", 1, 0]
    assert run(first, 1, m=2, context="ctx").value == ["ctx", 1, 2]
    assert run(last, 1, 2, x=3, context="ctx").value == ["ctx", 1, 2, {"x": 3}]
    assert "too many" in message_of(run(first, 1, 2, 3, context="ctx"))


def test_a_caller_cannot_pass_the_context() -> None:
    def who(job: object, **more: int) -> object:
        return [job, more]

    assert run(who, job="forged", x=1, context="ctx").value == ["ctx", {"x": 1}]


def test_a_raw_request_goes_to_the_argument_behind_the_context() -> None:
    def size(job: object, data: bytes) -> object:
        return [job, len(data)]

    tasks = Tasks()
    tasks.add(make_task(size, "it"))
    assert tasks.run(Call("it", raw=b"abc"), "ctx").value == ["ctx", 3]


def test_the_public_functions_of_a_module_are_its_tasks() -> None:
    module = ModuleType("made_up")
    source = (
        "import os\nfrom json import dumps\ndef add(a): return a\ndef _no(): pass\nclass C: pass"
    )
    sys.modules["made_up"] = module
    exec(source, module.__dict__)
    assert [t.name for t in tasks_of(module)] == ["add"]
    del sys.modules["made_up"]


def test_the_public_methods_of_an_object_are_its_tasks() -> None:
    class Counter:
        def open(self) -> str:
            return "opened"

        def _close(self) -> None: ...

    (task,) = tasks_of(Counter())
    assert (task.name, task.function()) == ("open", "opened")
