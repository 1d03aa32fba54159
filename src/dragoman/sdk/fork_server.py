"""The fork server: a small process without threads that forks a worker's task processes.

A worker has threads, and a fork of a process with threads may copy a lock that no thread will ever
release. This process has none. It has imported this package, so a new task process costs a fork
and the import of the user's module, not the start of an interpreter.

The worker sends one byte with a socket for each process that it wants. It gets `[pid, null]` when
the process runs and `[pid, wait status]` when it has ended, as lines of JSON. What a
process started ends with it. The server ends with its worker, and the task processes end with the
server.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Final

_WANTED: Final = b"F"
_PR_SET_PDEATHSIG: Final = 1


def ask_for_process(server: socket.socket, end: socket.socket) -> None:
    """Ask the server for a process with this end of its pipe. The caller closes its copy."""
    socket.send_fds(server, [_WANTED], [end.fileno()])


def serve(worker: socket.socket, run: Callable[[socket.socket], None]) -> None:
    """Fork a process that calls `run` for each request, until the worker closes its socket."""
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    while True:
        ready, _, _ = select.select([worker, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _report_ended(worker)
        if worker in ready:
            data, descriptors, _, _ = socket.recv_fds(worker, 1, 1)
            if not data:
                return
            end = socket.socket(fileno=descriptors[0])
            _fork(worker, (woken, wake), end, run)


def _fork(
    worker: socket.socket,
    wakers: tuple[socket.socket, socket.socket],
    end: socket.socket,
    run: Callable[[socket.socket], None],
) -> None:
    server = os.getpid()
    pid = os.fork()
    if pid:
        end.close()
        _report(worker, pid, None)
        return
    # The child. It must never return into the server's loop.
    try:
        _end_with(server)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (worker, *wakers):
            one.close()
        run(end)
    finally:
        os._exit(1)


def _end_with(server: int) -> None:
    """Have the kernel kill this process with its server, which ends with the worker.

    The thread that reads the pipe does that too, unless a task holds the interpreter lock.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # If the server has ended already, the kernel does not tell.
    if os.getppid() != server:
        os._exit(1)


def _report_ended(worker: socket.socket) -> None:
    while (pid := _ended_process()) is not None:
        # Before it is reaped: until then no other process can have its number.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        _report(worker, *os.waitpid(pid, 0))


def _ended_process() -> int | None:
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid


def _report(worker: socket.socket, pid: int, status: int | None) -> None:
    try:
        worker.sendall(json.dumps([pid, status]).encode() + b"\n")
    except OSError:
        # The worker is gone; the next turn of the loop ends the server.
        return


def main() -> None:
    """Serve the worker whose socket is the first argument; the second is its `sys.path`."""
    # Ctrl-C and systemd signal the whole group; the worker decides when its processes end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.path[:] = json.loads(sys.argv[2])
    # Imported here: `fork_server` itself is also imported by the worker.
    import dragoman.sdk.worker  # noqa: F401 (the user's module needs it)
    from dragoman.sdk.task_process import run_task_process

    serve(socket.socket(fileno=int(sys.argv[1])), run_task_process)


if __name__ == "__main__":
    main()
