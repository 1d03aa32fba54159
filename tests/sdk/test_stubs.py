"""Typed clients from the description of a service's tasks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import Client, Worker
from dragoman.sdk.stubs import class_name, python_type, write_stubs
from dragoman.sdk.tasks import describe_task, make_task
from dragoman.testing.harness import LocalBroker

ROOT = Path(__file__).resolve().parents[2]


def add(x: int, y: int = 0, *, scale: float = 1.0, note: str | None = None) -> float:
    """Add two numbers."""
    return (x + y) * scale


def names(*words: str, **more: int) -> list[str]:
    return [*words, *more]


def plain(thing, /):  # type: ignore[no-untyped-def]
    return thing


TASKS = [describe_task(make_task(each)) for each in (add, names, plain)]

USE = """
from dragoman import Client, JobContext, Worker
from stub import Math

def good(client: Client) -> float:
    math = Math(client, timeout=5.0)
    words: list[str] = math.names("a", b=1)
    return math.add(1, 2, scale=2.0, note=None) + len(words)

def wrong(client: Client) -> None:
    math = Math(client)
    math.add("1")
    math.add(1, skale=2.0)
    math.sub(1)
    text: str = math.add(1)
    client.options(timeuot=1.0)
    client.options(timeout="soon")
    add_one("1")

worker = Worker("nfp://127.0.0.1", "math")

@worker.task
def add_one(x: int, *, context: JobContext | None = None) -> int:
    return x + 1

kept: int = add_one(1)
"""
WRONG = ["12", "13", "14", "15", "16", "17", "18"]
PYRIGHT = ROOT / "tests/interop/node/node_modules/pyright/index.js"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, "int"),
        ({"type": "array", "items": {"type": "string"}}, "list[str]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "dict[str, float]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"anyOf": [{"type": "string"}, {}]}, "Any"),
        ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
        ({"$ref": "#/$defs/Order", "$defs": {}}, "dict[str, Any]"),
        ({}, "Any"),
    ],
)
def test_a_schema_becomes_an_annotation(schema: dict[str, object], expected: str) -> None:
    assert python_type(schema) == expected


@pytest.mark.parametrize(
    ("service", "name"), [("math", "Math"), ("my-service.v2", "MyServiceV2"), ("2d", "Service2d")]
)
def test_a_service_name_becomes_a_class_name(service: str, name: str) -> None:
    assert class_name(service) == name


def test_a_task_whose_name_is_no_method_is_mentioned() -> None:
    text = write_stubs("s", [{"task": "two words", "parameters": []}])
    assert "'two words' is no name of a method" in text
    compile(text, "stub", "exec")


def test_methods_have_the_signatures_of_the_tasks() -> None:
    text = write_stubs("math", TASKS)
    assert (
        "def add(self, x: int, y: int = 0, *, scale: float = 1.0, note: str | None = None)"
        " -> float:" in text
    )
    assert "def names(self, *words: Any, **more: Any) -> list[str]:" in text
    assert "async def add" in write_stubs("math", TASKS, is_async=True)


@pytest.mark.process
def test_a_typed_client_calls_the_service(tmp_path: Path) -> None:
    with LocalBroker("nfp") as broker:
        worker = Worker(broker.url("nfp"), "math", own_process_beats=False)
        for function in (add, names, plain):
            worker.task(function)
        with worker, Client(broker.url("nfp")) as client:
            scope: dict[str, object] = {}
            described = client.call("math", "show_tasks")
            exec(write_stubs("math", described), scope)
            math = scope["Math"](client, timeout=20.0)  # type: ignore[operator]
            assert math.add(1, 2, scale=2.0) == 6.0
            assert math.names("a", b=1) == ["a", "b"]


def write_program(folder: Path) -> None:
    (folder / "stub.py").write_text(write_stubs("math", TASKS))
    (folder / "use.py").write_text(USE)


@pytest.mark.process
@pytest.mark.timeout(300)
def test_mypy_finds_wrong_calls(tmp_path: Path) -> None:
    write_program(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "use.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "", "MYPYPATH": str(ROOT / "src")},
        check=False,
    )
    wrong = [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line]
    assert wrong == WRONG, done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.timeout(300)
def test_pyright_finds_the_same_wrong_calls(tmp_path: Path) -> None:
    write_program(tmp_path)
    settings = {
        "include": ["use.py", "stub.py"],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "standard",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["node", str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    wrong = [str(each["range"]["start"]["line"] + 1) for each in found]
    assert wrong == WRONG, found
