"""Tasks for task processes, good and bad. A child process imports this module."""

import ctypes
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from dragoman import JobContext, TaskFailed


def add(x: int, y: int = 0) -> int:
    return x + y


def pid() -> int:
    return os.getpid()


async def later(x: int) -> int:
    return x


def segfault() -> None:
    ctypes.string_at(0)


def exit_at_once(status: int) -> None:
    os._exit(status)


def kill_itself() -> None:
    os.kill(os.getpid(), 9)


def leave() -> None:
    sys.exit(4)


def spin() -> None:
    while True:
        pass


def hold_the_lock(job: JobContext) -> None:
    """Sleep in C with the interpreter lock: no signal handler and no thread runs meanwhile."""
    hold = ctypes.PyDLL(None).sleep
    said = False
    while True:
        try:
            if not said:
                said = True
                job.progress("holds")
            hold(120)
        except BaseException as error:
            # The order to stop came before the lock was held: hold it now.
            print("not now:", type(error).__name__)


def swallow(job: JobContext) -> str:
    try:
        job.progress("sleeps")
        time.sleep(120)
    except BaseException:
        return "swallowed"
    return "slept"


def tidy_up(path: str, job: JobContext) -> None:
    """Write a file when it is stopped."""
    try:
        job.progress("sleeps")
        time.sleep(120)
    finally:
        with open(path, "w") as file:
            file.write("tidied")


def hog(size: int) -> int:
    return len(bytearray(size))


def huge(size: int) -> bytes:
    return b"x" * size


def unsendable() -> Any:
    return threading.Lock()


def fork_and_return() -> str:
    os.fork()
    return "forked"


def fails(text: str) -> None:
    raise ValueError(text)


def refuses() -> None:
    raise TaskFailed("not today")


def says(job: JobContext) -> Any:
    job.progress({"step": 1})
    job.stream(b"piece")
    print("printed")
    return job.ask("proceed?", timeout=20)


def says_in_vain(job: JobContext) -> str:
    try:
        job.progress({"step": 1})
    except TaskFailed as error:
        return f"{type(error).__name__}: {error}"
    return "said"


def passes_on(job: JobContext, service: str) -> None:
    job.forward(service, "add", 40, y=2)


def counts(n: int) -> Iterator[int]:
    yield from range(n)


def prints(text: str) -> None:
    print(text)


async def pieces() -> AsyncIterator[bytes]:
    yield b"one"
    yield b"two"


def starts_a_child(path: str, job: JobContext) -> None:
    """Start a process, write its id, and wait."""
    if (child := os.fork()) == 0:
        time.sleep(120)
        os._exit(0)
    with open(path, "w") as file:
        file.write(str(child))
    job.progress("sleeps")
    time.sleep(120)
