"""A task as a child process finds it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.sdk import misbehaving

from dragoman.sdk.task_reference import refer
from dragoman.sdk.tasks import make_task


def test_a_function_is_found_by_its_name_with_the_task_s_options() -> None:
    task = make_task(misbehaving.add, "plus", (ValueError,))
    found = refer(task).load()
    assert (found.function, found.name, found.retry_on) == (misbehaving.add, "plus", (ValueError,))


def test_a_function_that_cannot_be_imported_is_refused() -> None:
    def inner() -> None: ...

    with pytest.raises(ValueError, match="task inner: a child process cannot import"):
        refer(make_task(inner))


PROGRAM = """
import pickle, sys
from dragoman.sdk.task_reference import refer
from dragoman.sdk.tasks import make_task

def triple(x: int) -> int:
    return 3 * x

if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(refer(make_task(triple))))
"""
CHILD = """
import pickle, sys
task = pickle.loads(sys.stdin.buffer.read()).load()
print(task.function(14), __name__, sys.modules["__main__"].__dict__["triple"] is task.function)
"""


@pytest.mark.process
@pytest.mark.parametrize("arguments", [["program.py"], ["-m", "program"]])
def test_a_task_of_the_main_program_is_found_without_running_it_again(
    tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    reference = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, capture_output=True, check=True
    ).stdout
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        cwd=tmp_path,
        input=reference,
        capture_output=True,
        check=True,
    )
    assert child.stdout.decode().split() == ["42", "__main__", "True"]
