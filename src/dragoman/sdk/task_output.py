"""Copies what a task prints to its job, for dialects that have log streams.

The process's own output stays as it is. What a thread prints that the task started by itself is not
copied: only the task's context says which job it belongs to.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, Final, TextIO

#: Receives text, and whether it was printed to stderr.
SendOutput = Callable[[str, bool], None]

#: A line without an end is sent in pieces of this many characters.
_LONGEST: Final = 4096
_LINES: ContextVar["_Lines | None"] = ContextVar("lines of the running task", default=None)


@contextmanager
def captured(send: SendOutput) -> Iterator[None]:
    """Pass what this context prints to `send`, in whole lines."""
    lines = _Lines(send)
    token = _LINES.set(lines)
    try:
        yield
    finally:
        _LINES.reset(token)
        lines.close()


def install() -> None:
    """Let `captured` see what is printed.

    There is no way back: another worker of this process may rely on it, and without a running task
    it changes nothing.
    """
    for name, is_error in (("stdout", False), ("stderr", True)):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _Copying):
            setattr(sys, name, _Copying(stream, is_error))


class _Lines:
    """Text of one task that waits for the end of its line, by stream."""

    def __init__(self, send: SendOutput) -> None:
        self._send = send
        self._rest = {False: "", True: ""}
        self._lock = Lock()

    def write(self, text: str, is_error: bool) -> None:
        """Add text; send the lines that are complete."""
        with self._lock:
            whole, newline, rest = (self._rest[is_error] + text).rpartition("\n")
            if len(rest) > _LONGEST:
                whole, newline, rest = whole + newline + rest, "", ""
            self._rest[is_error] = rest
            if whole or newline:
                self._send(whole + newline, is_error)

    def close(self) -> None:
        """Send lines without an end."""
        for is_error, rest in self._rest.items():
            if rest:
                self._send(rest, is_error)


class _Copying:
    """A standard stream that copies what a task writes."""

    def __init__(self, stream: TextIO, is_error: bool) -> None:
        self._stream = stream
        self._is_error = is_error

    def write(self, text: str) -> int:
        """Write to the stream and, inside a task, to its job."""
        lines = _LINES.get()
        if lines is not None and text:
            lines.write(text, self._is_error)
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several pieces."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
