"""The fork server, as a process of its own and over its raw socket."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.sdk.fork_server import ask_for_process
from dragoman.sdk.process_pipe import BlockingPipe, encode

pytestmark = pytest.mark.process


class Server:
    """A fork server with its worker's end."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "dragoman.sdk.fork_server", str(theirs.fileno())]
            self.process = subprocess.Popen(
                [*command, json.dumps(sys.path)], pass_fds=[theirs.fileno()]
            )
        self._lines = self.socket.makefile()

    def fork(self) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            ask_for_process(self.socket, theirs)
        while (report := self.read())[1] is not None:
            pass
        return report[0], ours

    def status_of(self, pid: int) -> int:
        """Return the wait status of a process, when it has ended."""
        while (report := self.read())[0] != pid:
            pass
        return int(report[1])

    def read(self) -> Any:
        return json.loads(self._lines.readline())

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()
    assert running.process.wait(20) == 0


def test_each_request_is_a_process_and_its_end_is_reported(server: Server) -> None:
    (first, pipe), (second, other) = server.fork(), server.fork()
    assert first != second
    os.kill(first, signal.SIGKILL)
    assert server.read() == [first, signal.SIGKILL]
    other.sendall(encode(("end",)))
    assert server.read() == [second, 0]
    pipe.close()
    other.close()


def test_a_process_whose_worker_closes_its_pipe_ends(server: Server) -> None:
    pid, pipe = server.fork()
    pipe.close()
    assert server.read() == [pid, signal.SIGKILL]


def test_signals_to_the_whole_group_end_neither_server_nor_processes(server: Server) -> None:
    pid, pipe = server.fork()
    for target in (server.process.pid, pid):
        os.kill(target, signal.SIGTERM)
    BlockingPipe(pipe).send(("end",))
    assert server.read() == [pid, 0]
    assert server.process.poll() is None
    pipe.close()


def test_the_processes_of_a_killed_server_end_with_it() -> None:
    server = Server()
    _, pipe = server.fork()
    server.process.kill()
    server.process.wait(20)
    # The pipe stays open here: only the kernel ends the process.
    assert pipe.recv(1) == b""
    pipe.close()
    server.close()
