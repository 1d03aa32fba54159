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
    """Leave a trace that the job has begun, take some time, and say who did it."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(seconds)
    return os.getpid()
