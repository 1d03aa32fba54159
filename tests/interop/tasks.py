"""Tasks that our own workers offer in the tests: `dragoman worker tests.interop.tasks ...`."""

import ctypes
import os
import sys
import threading
import time
from typing import Any

_LOG = os.environ.get("TASKS_LOG", "")
_LOCK = threading.Lock()


def add(x: int, y: int = 0) -> int:
    return x + y


def steps(job: Any, n: int = 3) -> int:
    """Report n times."""
    for i in range(n):
        job.progress({"step": i})
    return n


def confirm(job: Any) -> Any:
    """Ask the client a question."""
    return job.ask("proceed?", timeout=20)


def broken() -> None:
    raise RuntimeError("broken on purpose")


def pour(job: Any, chunks: int = 5) -> int:
    """Send pieces of a stream."""
    for i in range(chunks):
        job.stream(b"%d;" % i)
    return chunks


def listen(job: Any, count: int = 3) -> list[Any]:
    """Return what comes in unasked."""
    job.progress("listening")
    return [job.inbox.get(timeout=20) for _ in range(count)]


def slow(seconds: float = 1.0) -> float:
    """Take some time, by the clock of the wall; do not look for a cancel."""
    until = time.time() + seconds
    while time.time() < until:
        time.sleep(0.02)
    return seconds


def patient(job: Any, seconds: float = 30.0) -> str:
    """Take some time, unless asked to stop."""
    job.progress("begun")
    until = time.time() + seconds
    while time.time() < until:
        if job.is_cancelled:
            return "stopped"
        time.sleep(0.02)
    return "ran to the end"


def hold_the_lock(job: Any, seconds: int) -> int:
    """Sleep in C with the interpreter's lock held: no other thread of this process runs."""
    write("begun", job.id)
    library = ctypes.PyDLL(None)
    for _ in range(seconds):
        library.sleep(1)
    # Only now others may run.
    write("ended", job.id)
    return seconds


def noted(job: Any, seconds: float = 0.0, label: str = "") -> str:
    """Write down that this job was run here. A memo01 worker does not know the id of a job."""
    write("ran", label or job.id)
    if seconds:
        time.sleep(seconds)
    return str(os.getpid())


def write(*words: str) -> None:
    """Add a line to the log that all workers of a test share."""
    with _LOCK, open(_LOG, "a") as log:
        log.write(" ".join([*words, str(os.getpid())]) + "\n")


def greet(name: str = "world") -> str:
    """Print something, then return it."""
    print(f"hello {name}")
    print("careful", file=sys.stderr)
    return name
