"""What the workers of demo, fuzzer and soak do."""

import time
from typing import Any

from dragoman.sdk.tasks import TaskFailed


def echo(value: Any) -> Any:
    """Return what was sent."""
    return value


def refuse() -> None:
    """Fail, as tasks do."""
    raise TaskFailed("refused, as asked")


def square(n: int) -> int:
    """Take a moment to square a number."""
    time.sleep(0.02)
    return n * n
