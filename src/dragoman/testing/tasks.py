"""The tasks of the demo's, fuzzer's and soak's workers."""

import time

from dragoman.sdk.tasks import TaskFailed


def echo(value: object) -> object:
    """Return the argument."""
    return value


def add(x: int, y: int) -> int:
    """Add two numbers."""
    return x + y


def refuse() -> None:
    """Fail."""
    raise TaskFailed("refused, as asked")


def square(n: int) -> int:
    """Square a number after 20 ms."""
    time.sleep(0.02)
    return n * n
