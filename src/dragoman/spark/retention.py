"""Retention of result files: a maximum age and a maximum total size; the oldest go first.

Pure: names, sizes and times in, names out. Only files with the name of a result are removed.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from dragoman.model.value import value

#: The suffix of every result file.
ENDING: Final = ".result.parquet"


@value
class ResultFile:
    """One result file."""

    name: str
    size: int
    made_at: float


@value
class Retention:
    """The limits of result files."""

    #: Maximum age in seconds; 0 for no limit.
    seconds: float = 0.0
    #: Maximum size of all files together; 0 for no limit. The newest file always stays.
    bytes: int = 0

    def announcement(self, now: float) -> dict[str, str]:
        """Return what the client learns about the end of a file that is made now."""
        if not self.seconds:
            return {}
        return {"until": datetime.fromtimestamp(now + self.seconds, UTC).isoformat("T", "seconds")}

    def excess(self, files: Iterable[ResultFile], now: float) -> list[str]:
        """Return the names of the files to remove, oldest first."""
        oldest_first = sorted(files, key=lambda file: (file.made_at, file.name))
        total = sum(file.size for file in oldest_first)
        excess: list[str] = []
        for file in oldest_first:
            is_old = self.seconds > 0 and now - file.made_at > self.seconds
            is_last = len(excess) == len(oldest_first) - 1
            if not is_old and (not self.bytes or total <= self.bytes or is_last):
                break
            excess.append(file.name)
            total -= file.size
        return excess


def is_result(name: str) -> bool:
    """Return whether a file name is that of a result."""
    return name.endswith(ENDING) and not name.startswith(".")
