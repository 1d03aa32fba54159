"""Retries: whether and when a task that failed runs again."""

import json
import re
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

from dragoman.model.fault import Fault, FaultCode
from dragoman.model.value import value

#: The name of the exception by which a task says that no retry can succeed.
PERMANENT: Final = "Permanent"
#: The name of the exception by which a task says after how many seconds it wants to run again.
TRY_AGAIN: Final = "TryAgain"
#: Workers announce the retries of a task in a label: this prefix and the name of the task.
LABEL: Final = "retry."
#: The most retries of one job, and the longest wait between two of them in seconds (a week).
MOST_RETRIES: Final = 1000
LONGEST_WAIT: Final = 7 * 86_400.0
_ASKED_WAIT: Final = re.compile(rf"{TRY_AGAIN}: after (\d{{1,7}}(?:\.\d{{1,9}})?) s\b")
_EXCEPTION: Final = re.compile(r"(?:\w+\.)*(\w+)(?::|$)")


@value
class Retry:
    """How often a task that failed runs again, and how long it waits before. In seconds."""

    times: int = 0
    #: The wait before the first retry.
    backoff: float = 1.0
    #: Each wait is this much longer than the one before; 1: all are the same.
    factor: float = 2.0
    #: No wait is longer.
    longest: float = 600.0
    #: The share of each wait that is left to chance: 0 none, 1 all of it.
    jitter: float = 0.0
    #: The faults and the names of exceptions that are tried again.
    on: tuple[str, ...] = (FaultCode.TASK_FAILED.value,)

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        _require(0 <= self.times <= MOST_RETRIES, f"retries must be 0 to {MOST_RETRIES}")
        _require(0 <= self.backoff <= LONGEST_WAIT, "backoff must be 0 s to a week")
        _require(1 <= self.factor <= 100, "factor must be 1 to 100")
        _require(0 <= self.longest <= LONGEST_WAIT, "longest must be 0 s to a week")
        _require(0 <= self.jitter <= 1, "jitter must be 0 to 1")
        _require(len(self.on) <= 64, "on must not name more than 64 faults")

    def covers(self, fault: Fault) -> bool:
        """Tell whether a fault is one that is tried again."""
        name = exception_name(fault)
        if name in (PERMANENT, TRY_AGAIN):
            return name == TRY_AGAIN
        return fault.code.value in self.on or name in self.on

    def wait(self, retry: int, chance: str) -> float:
        """Return the seconds before a retry, from 1. `chance`: the job's id spreads the jitter."""
        wait: float = min(self.backoff * self.factor ** min(retry - 1, 64), self.longest)
        # The core has no random numbers. Ids of jobs are random, so their digest is good enough.
        share = crc32(f"{chance} {retry}".encode()) / 2**32
        return wait * (1 - self.jitter * share)


def _require(claim: bool, message: str) -> None:
    if not claim:
        raise ValueError(message)


NO_RETRY: Final = Retry()


def exception_name(fault: Fault) -> str:
    """Return the exception that a failed task names first in its message; empty: none."""
    if fault.code is not FaultCode.TASK_FAILED:
        return ""
    found = _EXCEPTION.match(fault.message.partition("\n")[0])
    return found.group(1) if found else ""


def asked_wait(fault: Fault) -> float | None:
    """Return the seconds after which a failed task wants to run again; None: it says nothing."""
    if fault.code is not FaultCode.TASK_FAILED:
        return None
    found = _ASKED_WAIT.match(fault.message)
    return min(float(found[1]), LONGEST_WAIT) if found else None


def try_again_text(seconds: float, reason: str) -> str:
    """Write what a task says that wants to run again after so many seconds."""
    return f"{TRY_AGAIN}: after {min(max(seconds, 0.0), LONGEST_WAIT):.3f} s: {reason}"


def retry_members(retry: Retry) -> dict[str, object]:
    """Return the members that differ from the defaults, for JSON."""
    found = {f.name: getattr(retry, f.name) for f in fields(Retry)}
    return {k: v for k, v in found.items() if v != getattr(NO_RETRY, k)}


def read_retry(given: object) -> Retry:
    """Read retries: a number, or an object with members of `Retry`. Raises ValueError.

    Text is the JSON of either: a query string has no objects.
    """
    if isinstance(given, str):
        given = _parsed(given)
    if isinstance(given, bool) or not isinstance(given, int | dict):
        raise ValueError("retries must be a number, or an object such as {times: 3, backoff: 1}")
    if isinstance(given, int):
        return Retry(given)
    known = {f.name: f for f in fields(Retry)}
    if unknown := [str(name) for name in given if name not in known]:
        raise ValueError(f"retries have no member {unknown[0]!r}; use {', '.join(known)}")
    return Retry(**{name: _member(name, found) for name, found in given.items()})


def _parsed(text: str) -> object:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("retries must be a number, or the JSON of an object") from None
    return found


def _member(name: str, found: object) -> Any:
    if name == "on":
        if not isinstance(found, list | tuple) or not all(isinstance(n, str) for n in found):
            raise ValueError("on must be a list of faults and names of exceptions")
        return tuple(found)
    if isinstance(found, float) and found.is_integer():
        found = int(found)  # JSON has one kind of number
    wanted = int if name == "times" else int | float
    if isinstance(found, bool) or not isinstance(found, wanted):
        raise ValueError(f"{name} must be a number")
    return found


def label_text(retry: Retry) -> str:
    """Write retries as the value of a label."""
    return json.dumps(retry_members(retry), separators=(",", ":"))


@lru_cache(maxsize=1024)
def read_label(text: str) -> Retry:
    """Read the value of a label. Anything unreadable means no retries."""
    try:
        return read_retry(json.loads(text))
    except (ValueError, RecursionError):
        return NO_RETRY
