"""Spark's errors as one line of text, with the position in the SQL."""

import re
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

#: Where the parser stopped; it counts columns from 0.
_STOPPED: Final = re.compile(r"\(line (\d+), pos (\d+)\)")
_CONDITION: Final = re.compile(r"^\[([A-Z0-9_.]+)\]\s*")
_TAIL: Final = re.compile(r"\s*SQLSTATE: \w+.*$")
#: A part of a name in Spark's messages.
_QUOTED: Final = re.compile(r"`([^`]*)`")
_LONGEST: Final = 500
_NO_MEMORY: Final = "OutOfMemoryError"
#: The condition of a function that the session does not have.
_NO_FUNCTION: Final = "UNRESOLVED_ROUTINE"


def explain(error: BaseException, text: str = "") -> str:
    """Return position, message and error condition as one line. `text` is the statement."""
    java = _cause(error)
    if java is not None and str(java.getClass().getName()).endswith(_NO_MEMORY):
        return (
            "stopped for want of memory: the worker's heap has no room for what the query asks "
            "(large values, arrays or groups); ask for less, or raise --memory of the worker"
        )
    line = _first_line(str(java.getMessage()) if java is not None else str(error))
    condition = _CONDITION.match(line)
    message = _TAIL.sub("", line[condition.end() :] if condition else line)[:_LONGEST]
    position = _position(java, error, text)
    if condition and condition[1] == _NO_FUNCTION:
        return f"{position}{_no_function(message)} [{_NO_FUNCTION}]"
    name = f" [{condition[1]}]" if condition else ""
    return f"{position}{message}{name}"


def _no_function(message: str) -> str:
    """Say which function is missing, without Spark's search path."""
    name = _QUOTED.findall(message.partition(" on ")[0])
    return f"there is no function {'.'.join(name) or '?'}, or this worker does not allow it"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)


def _cause(error: BaseException) -> Any:
    """Return the innermost Java exception, which has the actual reason."""
    java: Any = getattr(error, "_origin", None)
    if java is None and isinstance(error, Py4JJavaError):
        java = error.java_exception
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    return java


def _position(java: object, error: BaseException, text: str) -> str:
    if stopped := _STOPPED.search(str(error)):
        return f"line {stopped[1]}, column {int(stopped[2]) + 1}: "
    start = _start(java)
    if start is None and isinstance(error, PySparkException):
        start = _start_from_python(error)
    if start is None or not text:
        return ""
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return f"line {line}, column {column}: "


def _start(java: Any) -> int | None:
    """Return the offset of the SQL fragment that an exception names."""
    try:
        contexts = list(java.getQueryContext())
        found = [int(each.startIndex()) for each in contexts]
    except Exception:
        # Not every exception has a context, and not every context has an offset.
        return None
    return next((start for start in found if start >= 0), None)


def _start_from_python(error: PySparkException) -> int | None:
    try:
        return next((each.startIndex() for each in error.getQueryContext() or ()), None)
    except Exception:
        return None
