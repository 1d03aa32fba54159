"""What every worker of the matrix offers: `dragoman worker tests.interop.matrix_tasks ...`."""

import os
import time
from typing import Any

from dragoman import TaskFailed


def echo(value: Any) -> Any:
    return value


def refuse() -> None:
    raise TaskFailed("refused, as asked")


def slow(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


def patient(job: Any, seconds: float = 60.0) -> str:
    """Take long, unless asked to stop."""
    until = time.time() + seconds
    while time.time() < until and not job.is_cancelled:
        time.sleep(0.02)
    return "stopped" if job.is_cancelled else "ran to the end"


def noted(path: str, seconds: float) -> int:
    """Leave a trace that the job has begun, and say who did it; the first worker takes long."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    with open(path) as file:
        is_first = file.readline().strip() == str(os.getpid())
    time.sleep(seconds if is_first else 0.0)
    return os.getpid()
