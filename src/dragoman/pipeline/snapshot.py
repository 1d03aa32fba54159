"""What a complete step left behind: which versions of which tables count, and how far it came.

Pure values and their text form; `store` reads and writes the files.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

#: Before any real day.
FIRST_DAY: Final = date(1, 1, 1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def instant(micros: int) -> datetime:
    """Return the instant so many microseconds after the epoch.

    Spark hands out its timestamps in the zone of the machine; whole numbers have no zone.
    """
    return _EPOCH + micros * _MICROSECOND


@dataclass(frozen=True)
class VersionPart:
    """The settled rows of one version that count: those of the days from `since` to `until`."""

    version: int
    #: How many times its rows were merged with others.
    level: int = 0
    since: date = FIRST_DAY
    until: date | None = None

    def before(self, day: date) -> "VersionPart | None":
        """Return what is left when everything from a day on is void."""
        until = min(day, self.until or day)
        return (
            VersionPart(self.version, self.level, self.since, until) if until > self.since else None
        )

    def reaches(self, since: date | None) -> bool:
        """Whether rows from a day on may be among its own."""
        return since is None or self.until is None or self.until > since


@dataclass
class Snapshot:
    """The state of all tables. Changed only while its step is in the making."""

    version: int = 0
    #: The newest record in the tables.
    seq: int = 0
    #: The newest instant in the tables; spans that are still open are measured up to it.
    horizon: datetime | None = None
    #: The settled rows of each table.
    parts: dict[str, tuple[VersionPart, ...]] = field(default_factory=dict)
    #: The version that has each table's rows that are not settled.
    unsettled: dict[str, int] = field(default_factory=dict)

    @property
    def folder(self) -> int:
        """The number of this version's folders; the odd ones are for merged rows."""
        return self.version * 2

    @property
    def merged_folder(self) -> int:
        """The number of the folders in which this version merges older ones."""
        return self.folder + 1

    def following(self) -> "Snapshot":
        """Return the draft of the next version."""
        return Snapshot(
            self.version + 1, self.seq, self.horizon, dict(self.parts), dict(self.unsettled)
        )

    def add(self, table: str, part: VersionPart) -> None:
        """Let a version's rows of a table count."""
        self.parts[table] = (*self.parts.get(table, ()), part)

    def cut(self, table: str, since: date) -> None:
        """Let a table's rows from a day on count no more."""
        left = (part.before(since) for part in self.parts.get(table, ()))
        self.parts[table] = tuple(part for part in left if part is not None)

    def put(self, table: str, old: list[VersionPart], new: VersionPart) -> None:
        """Let one part stand for several that follow each other."""
        parts = list(self.parts[table])
        at = parts.index(old[0])
        parts[at : at + len(old)] = [new]
        self.parts[table] = tuple(parts)

    def folders(self) -> set[tuple[str, int]]:
        """Return every table folder that the snapshot needs."""
        settled = {(table, p.version) for table, parts in self.parts.items() for p in parts}
        return settled | set(self.unsettled.items())

    def to_json(self) -> str:
        """Write the snapshot as one line of text."""
        said = {
            "version": self.version,
            "seq": self.seq,
            "horizon": (self.horizon - _EPOCH) // _MICROSECOND if self.horizon else None,
            "parts": {name: [_said(p) for p in parts] for name, parts in self.parts.items()},
            "unsettled": self.unsettled,
        }
        return json.dumps(said, separators=(",", ":"), sort_keys=True)


def snapshot_from(text: str) -> Snapshot:
    """Read what `to_json` wrote."""
    said = json.loads(text)
    micros = said["horizon"]
    parts = {name: tuple(_heard(p) for p in parts) for name, parts in said["parts"].items()}
    horizon = None if micros is None else instant(micros)
    return Snapshot(said["version"], said["seq"], horizon, parts, said["unsettled"])


def _said(part: VersionPart) -> list[int | str | None]:
    until = part.until.isoformat() if part.until else None
    return [part.version, part.level, part.since.isoformat(), until]


def _heard(said: list[object]) -> VersionPart:
    version, level, since, until = said
    assert isinstance(version, int)
    assert isinstance(level, int)
    ends = date.fromisoformat(str(until)) if until else None
    return VersionPart(version, level, date.fromisoformat(str(since)), ends)
