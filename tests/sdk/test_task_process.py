"""A task process, driven over its pipe as a worker does."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.sdk import misbehaving
from tests.sdk.test_fork_server import Server

from dragoman.dialects.peer_sides import Assigned
from dragoman.model.content import Answer, Call
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId
from dragoman.sdk.process_pipe import BlockingPipe
from dragoman.sdk.task_process import TaskOrder
from dragoman.sdk.task_reference import TaskReference, refer
from dragoman.sdk.tasks import make_task

pytestmark = pytest.mark.process


class Child:
    """One process and the messages that it sent."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.pid, self._socket = server.fork()
        self._socket.settimeout(30)
        self.pipe = BlockingPipe(self._socket)
        self._received: list[Any] = []

    def order(self, task: str, *args: Any, **options: Any) -> None:
        reference = refer(make_task(getattr(misbehaving, task)))
        self.run(TaskOrder(Assigned("t1", JobId("j1"), Call(task, args)), reference, **options))

    def run(self, order: TaskOrder) -> None:
        self.pipe.send(("run", order))

    def read(self) -> Any:
        """Return the next message; agree to what the task says."""
        while not self._received:
            self._received = self.pipe.receive()
        message = self._received.pop(0)
        if message[0] == "say":
            self.pipe.send(("reply", message[1], "", ""))
        return message

    def answer(self) -> Answer:
        verb, answer = self.read()
        assert verb == "done"
        assert isinstance(answer, Answer)
        return answer

    def fault(self) -> tuple[FaultCode, str]:
        fault = self.answer().fault
        assert fault is not None
        return fault.code, fault.message

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()
    running.process.wait(20)


@pytest.fixture
def child(server: Server) -> Iterator[Child]:
    made = Child(server)
    yield made
    made.close()


def test_jobs_run_one_after_the_other_in_one_process(child: Child) -> None:
    child.order("add", 1, 2)
    assert child.answer() == Answer(3)
    child.order("pid")
    assert child.answer() == Answer(child.pid)
    child.order("later", 5)
    assert child.answer() == Answer(5)
    child.order("counts", 3)
    assert child.answer() == Answer([0, 1, 2])


def test_what_a_task_says_is_sent_by_the_worker_and_input_reaches_it(child: Child) -> None:
    child.order("says", takes_output=True)
    said = [child.read()[2:] for _ in range(3)]
    assert said == [
        ("progress", ({"step": 1},)),
        ("chunk", (b"piece",)),
        ("output", ("printed\n", False)),
    ]
    _, _, verb, (request, question) = child.read()
    assert (verb, question) == ("ask_input", "proceed?")
    child.pipe.send(("give", "another job", request, "no"))
    child.pipe.send(("give", "t1", request, "yes"))
    assert child.answer() == Answer("yes")


def test_what_the_dialect_lacks_is_an_error_inside_the_task(child: Child) -> None:
    child.order("says_in_vain")
    _, number, *_ = child.pipe.receive()[0]
    child.pipe.send(("reply", number, "unsupported", "memo has no progress reports"))
    assert child.answer() == Answer("NotInDialect: memo has no progress reports")


@pytest.mark.parametrize(
    ("task", "args", "text"),
    [
        ("fails", ("no such thing",), "ValueError: no such thing\n  in fails, misbehaving.py line"),
        ("refuses", (), "not today"),
        ("leave", (), "the task called sys.exit(4)"),
        ("unsendable", (), "cannot be sent"),
        ("add", ("x",), "argument 'x'"),
    ],
)
def test_a_failure_is_the_same_fault_as_in_a_thread(
    child: Child, task: str, args: tuple[Any, ...], text: str
) -> None:
    child.order(task, *args)
    if task in {"fails", "leave"}:
        verb, method, event, fields = child.read()
        assert (verb, method, event) == ("log", "warning", "task raised an exception")
        assert fields["job"] == "j1"
    code, message = child.fault()
    assert code == FaultCode.TASK_FAILED
    assert text in message


def test_a_function_that_cannot_be_imported_ends_its_job_with_the_reason(child: Child) -> None:
    work = Assigned("t1", JobId("j1"), Call("t"))
    child.run(TaskOrder(work, TaskReference("t", b"cno_such_module\nf\n.")))
    assert child.read()[0] == "log"
    assert "No module named 'no_such_module'" in child.fault()[1]
    child.order("add", 1)
    assert child.answer() == Answer(1)


def test_memory_beyond_the_limit_is_a_fault_and_the_next_job_is_free_of_it(child: Child) -> None:
    child.order("hog", 256 << 20, memory=64 << 20)
    assert child.fault()[1] == "the task needs more than its memory limit, 67108864 bytes"
    child.order("hog", 256 << 20)
    assert child.answer() == Answer(256 << 20)


def test_a_result_that_is_too_large_is_a_fault(child: Child) -> None:
    child.order("huge", 257 << 20)
    code, message = child.fault()
    assert code == FaultCode.TOO_LARGE
    assert "the limit is 268435456" in message


def test_a_task_that_forks_answers_once(child: Child) -> None:
    child.order("fork_and_return")
    assert child.answer() == Answer("forked")
    child.order("add", 1)
    assert child.answer() == Answer(1)


def test_a_forward_reaches_the_worker(child: Child) -> None:
    child.order("passes_on", "other")
    assert child.read() == ("forward", "other", Call("add", (40,), {"y": 2}))


def test_the_order_to_stop_ends_task_and_process_after_the_task_tidied_up(
    child: Child, tmp_path: Any
) -> None:
    child.order("tidy_up", str(tmp_path / "f"))
    assert child.read()[2] == "progress"
    child.pipe.send(("stop", "another job"))
    child.pipe.send(("stop", "t1"))
    assert child.server.status_of(child.pid) == 0
    assert (tmp_path / "f").read_text() == "tidied"


def test_an_order_to_stop_that_arrives_with_the_job_is_not_lost(child: Child) -> None:
    child.order("spin")
    child.pipe.send(("stop", "t1"))
    assert child.server.status_of(child.pid) == 0


def test_a_process_without_its_worker_kills_what_its_tasks_started(
    child: Child, tmp_path: Any
) -> None:
    child.order("starts_a_child", str(tmp_path / "pid"))
    assert child.read()[2] == "progress"
    child._socket.shutdown(socket.SHUT_WR)
    # The grandchild has a copy of the pipe's end: it reads as closed when both are gone.
    assert child._socket.recv(1) == b""
