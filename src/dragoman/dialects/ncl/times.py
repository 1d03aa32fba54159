"""Times in wire format, and wake-up times of many keys."""

from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Final

from dragoman.dialects.ncl.models import NO_TIME

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(at: float) -> str:
    """Write a time as RFC 3339 in UTC; 0 is the wire's zero time."""
    if not at:
        return NO_TIME
    text = (_EPOCH + timedelta(microseconds=round(at * 1e6))).isoformat()
    return text.removesuffix("+00:00") + "Z"


def time_of(text: str) -> float:
    """Read a time; the zero time and unreadable ones are 0."""
    if text == NO_TIME:
        return 0.0
    head, dot, tail = text.partition(".")
    if dot:
        digits = len(tail) - len(tail.lstrip("0123456789"))
        text = f"{head}.{tail[:digits][:6].ljust(6, '0')}{tail[digits:]}"
    try:
        return (datetime.fromisoformat(text) - _EPOCH).total_seconds()
    except ValueError:
        return 0.0


class WakeTimes:
    """The next wake-up time of each key. An early wake-up is harmless, a late one is not."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Hashable]] = []
        self._set: dict[Hashable, float] = {}
        self._count = 0

    def set(self, key: Hashable, at: float | None) -> None:
        """Wake `key` no later than `at`. A later time than the one set changes nothing."""
        if at is None:
            return
        known = self._set.get(key)
        if known is not None and known <= at:
            return
        self._set[key] = at
        self._count += 1
        heappush(self._heap, (at, self._count, key))

    def due(self, now: float) -> list[Hashable]:
        """Remove and return the keys that are due."""
        keys = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heappop(self._heap)
            if self._set.get(key) == at:
                del self._set[key]
                keys.append(key)
        return keys

    def next(self) -> float | None:
        """Return the earliest wake-up time."""
        while self._heap and self._set.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
