"""Spark starts without its fixed lines: Java's notice of modules, advice about log levels.

The Java process inherits standard error when it starts. It gets a pipe instead. A thread passes on
every line that is not one of these.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: How the lines begin that every start prints, whatever the settings are.
NOISE: Final = (
    b"WARNING: Using incubator modules: ",
    b"Setting default log level to ",
    b"To adjust logging level use ",
    b"Setting Spark log level to ",
)
_STDERR: Final = 2


@contextmanager
def quiet_start() -> Iterator[None]:
    """Give processes that start in this block a standard error without the noise."""
    terminal = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    threading.Thread(
        target=_pass_on, args=(reading, os.dup(terminal)), name="dragoman spark", daemon=True
    ).start()
    try:
        yield
    finally:
        os.dup2(terminal, _STDERR)
        os.close(terminal)


def _pass_on(reading: int, writing: int) -> None:
    """Copy lines until the last process with the pipe ends."""
    with os.fdopen(reading, "rb") as lines, os.fdopen(writing, "wb", buffering=0) as out:
        for line in lines:
            if not line.startswith(NOISE):
                out.write(line)
