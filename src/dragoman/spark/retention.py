"""How long files with results stay: for a time, and together not above a size; the oldest go first.

Pure: names, sizes and times in, names out. Only what is called as a result is in question; whatever
else is in the folder is somebody's own.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from dragoman.model.value import value

#: How the name of every file with a result ends.
ENDING: Final = ".result.parquet"


@value
class ResultFile:
    """A file with a result."""

    name: str
    size: int
    made_at: float


@value
class Retention:
    """What is kept."""

    #: Seconds; 0: for ever.
    seconds: float = 0.0
    #: Of all files together; 0: without bound. The newest stays, however large it is.
    bytes: int = 0

    def told(self, now: float) -> dict[str, str]:
        """Return what the client of a new file is told about its end."""
        if not self.seconds:
            return {}
        return {"until": datetime.fromtimestamp(now + self.seconds, UTC).isoformat("T", "seconds")}

    def over(self, files: Iterable[ResultFile], now: float) -> list[str]:
        """Return what is to go, the oldest first."""
        waiting = sorted(files, key=lambda file: (file.made_at, file.name))
        total = sum(file.size for file in waiting)
        gone: list[str] = []
        for file in waiting:
            is_old = self.seconds > 0 and now - file.made_at > self.seconds
            is_last = len(gone) == len(waiting) - 1
            if not is_old and (not self.bytes or total <= self.bytes or is_last):
                break
            gone.append(file.name)
            total -= file.size
        return gone


def is_result(name: str) -> bool:
    """Tell whether a file of this name is a result, and not somebody's own."""
    return name.endswith(ENDING) and not name.startswith(".")
