"""Charts of any range of time, from the pipeline's table `service_minutes` in `DATA/tables`.

The tables are Delta tables; their newest complete step is the newest row of `steps`. Reading needs
the extra `spark` (delta-rs and Arrow, no Java). Runs in a thread: it reads files.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from dragoman.model.value import value

TABLES_FOLDER: Final = "tables"
_TABLE: Final = "service_minutes"
#: Points of a chart, at most; a step is a whole number of minutes.
MOST_POINTS: Final = 180
_MINUTE: Final = 60
_COUNTS: Final = ("submitted", "succeeded", "refused", "ended")
_LEVELS: Final = ("backlog", "running")
_TIMES: Final = ("p50", "p90")
_COLUMNS: Final = (
    *("service", "dialect", "minute", *_COUNTS, *_LEVELS),
    *(f"{part}_{share}_us" for part in ("queue", "run") for share in _TIMES),
)
_INSTALL: Final = "Run: pip install 'dragoman[spark]', and start the broker again"
_MICROSECONDS: Final = 1_000_000


@value
class TableRange:
    """A range of time in whole steps, in seconds since the epoch."""

    start: int
    step: int
    number: int

    @classmethod
    def covering(cls, since: float, until: float) -> "TableRange":
        """Return the range with the smallest step that needs no more than `MOST_POINTS`."""
        minutes = max(1.0, (until - since) / _MINUTE)
        step = _MINUTE * int(-(-minutes // MOST_POINTS))
        start = int(since // step) * step
        return cls(start, step, max(1, int(-(-(until - start) // step))))

    def place(self, minute: datetime) -> int:
        """Return the index of a minute; below 0 or beyond the last: outside."""
        return int((minute.timestamp() - self.start) // self.step)


class TableSeries:
    """Reads the tables of one folder of data."""

    def __init__(self, data: Path) -> None:
        self._root = data / TABLES_FOLDER

    @property
    def is_there(self) -> bool:
        """Whether the pipeline has written tables."""
        return (self._root / "steps" / "_delta_log").is_dir()

    def read(self, since: float, until: float) -> dict[str, object]:
        """Return the series of a range; `trouble` says why there are none."""
        if not self.is_there:
            return {"trouble": f"the pipeline has written no tables to {self._root.name}/ yet"}
        wanted = TableRange.covering(since, until)
        try:
            rows, horizon = self._rows(wanted)
        except ModuleNotFoundError as error:
            return {"trouble": f"reading the tables needs the package {error.name!r}. {_INSTALL}"}
        return {"horizon": horizon, **fold_minutes(rows, wanted)}

    def _rows(self, wanted: TableRange) -> tuple[list[dict[str, Any]], float]:
        """Return the minutes of a range, and up to when the tables go."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
        from deltalake import DeltaTable

        [step] = DeltaTable(self._root / "steps").to_pyarrow_table().to_pylist()[-1:]
        version = dict(step["versions"]).get(_TABLE)
        horizon = step["horizon"].timestamp() if step["horizon"] else 0.0
        if version is None:
            return [], horizon
        first = datetime.fromtimestamp(wanted.start, UTC)
        last = first + timedelta(seconds=wanted.step * wanted.number)
        table = DeltaTable(self._root / _TABLE, version=version)
        files = [
            row["path"]
            for row in pa.table(table.get_add_actions(flatten=True)).to_pylist()
            if row["partition.day"] is None or first.date() <= row["partition.day"] <= last.date()
        ]
        found: list[dict[str, Any]] = []
        is_inside = (pc.field("minute") >= first) & (pc.field("minute") < last)
        for each in files:
            path = self._root / _TABLE / each
            found += pq.read_table(path, columns=list(_COLUMNS), filters=is_inside).to_pylist()
        return found, horizon


def fold_minutes(rows: Iterable[dict[str, Any]], wanted: TableRange) -> dict[str, object]:
    """Sum the minutes into the steps of a range.

    Counts are sums. Levels are those at the end of a step, summed over services. A time is the mean
    of the minutes' percentiles, weighted by the jobs that ended in them: no percentile of the step.
    """
    number = wanted.number
    counts = {name: [0] * number for name in _COUNTS}
    times = {name: [0.0] * number for name in _TIMES}
    levels: list[dict[tuple[str, str], dict[str, Any]]] = [{} for _ in range(number)]
    for row in sorted(rows, key=lambda each: each["minute"]):
        at = wanted.place(row["minute"])
        if not 0 <= at < number:
            continue
        for name in _COUNTS:
            counts[name][at] += row[name]
        for name in _TIMES:
            took = (row[f"queue_{name}_us"] or 0) + (row[f"run_{name}_us"] or 0)
            times[name][at] += row["ended"] * took / _MICROSECONDS
        levels[at][row["service"], row["dialect"]] = row
    ended = counts.pop("ended")
    failed = [all_ - good for all_, good in zip(ended, counts["succeeded"], strict=True)]
    means = {
        name: [round(t / n, 4) if n else 0.0 for t, n in zip(found, ended, strict=True)]
        for name, found in times.items()
    }
    place = {"from": wanted.start, "step": wanted.step}
    return {**place, **counts, "failed": failed, **means, **_levels(levels)}


def _levels(steps: list[dict[tuple[str, str], dict[str, Any]]]) -> dict[str, list[int]]:
    """Return the levels at the end of each step: a service without a row keeps its last one."""
    found: dict[str, list[int]] = {"waiting": [], "running": []}
    waiting: Counter[tuple[str, str]] = Counter()
    running: Counter[tuple[str, str]] = Counter()
    for changes in steps:
        for key, row in changes.items():
            waiting[key], running[key] = row["backlog"], row["running"]
        found["waiting"].append(max(0, sum(waiting.values())))
        found["running"].append(max(0, sum(running.values())))
    return found
