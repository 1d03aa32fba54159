"""The tasks of the demo's, fuzzer's and soak's workers."""

import time
from typing import Any

from dragoman.sdk.tasks import TaskFailed


def echo(value: Any) -> Any:
    """Return the argument."""
    return value


def refuse() -> None:
    """Fail."""
    raise TaskFailed("refused, as asked")


def square(n: int) -> int:
    """Square a number after 20 ms."""
    time.sleep(0.02)
    return n * n
