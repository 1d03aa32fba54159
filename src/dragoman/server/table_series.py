"""Charts of any range of time, from the pipeline's table `service_minutes`.

The tables are Delta tables in a folder or on object storage; their newest complete step is the
newest row of `steps`. Reading needs the extra `spark` (delta-rs and Arrow, no Java). Runs in a
thread: it reads files. Credentials of object storage come from the usual environment.
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
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
_LOOK_AT: Final = "Look at the bucket, AWS_ENDPOINT_URL, AWS_REGION and the credentials"
_MICROSECONDS: Final = 1_000_000
#: A store that does not answer: a person waits for the chart, and a thread is busy.
_PATIENCE: Final = {
    "connect_timeout": "3s",
    "timeout": "10s",
    "max_retries": "1",
    "retry_timeout": "10s",
}

log = logging.getLogger(__name__)


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
    """Reads the tables of one folder or URL."""

    def __init__(self, root: str) -> None:
        # Hadoop calls S3 `s3a`.
        self._root = re.sub("^s3a://", "s3://", root.removeprefix("file://")).rstrip("/")
        self._is_remote = "://" in self._root

    @property
    def is_there(self) -> bool:
        """Whether the pipeline has written tables; a URL is believed, and never asked here."""
        return self._is_remote or Path(self._root, "steps", "_delta_log").is_dir()

    def read(self, since: float, until: float) -> dict[str, object]:
        """Return the series of a range; `trouble` says why there are none."""
        if not self.is_there:
            return {
                "trouble": f"the pipeline has written no tables to {Path(self._root).name}/ yet"
            }
        wanted = TableRange.covering(since, until)
        try:
            rows, horizon = self._rows(wanted)
        except ModuleNotFoundError as error:
            return {"trouble": f"reading the tables needs the package {error.name!r}. {_INSTALL}"}
        except Exception as error:
            if not self._is_remote:
                raise
            log.warning("cannot read the tables at %s: %s", self._root, error)
            return {"trouble": f"cannot read the tables at {self._root}. {_LOOK_AT}"}
        return {"horizon": horizon, **fold_minutes(rows, wanted)}

    def _rows(self, wanted: TableRange) -> tuple[list[dict[str, Any]], float]:
        """Return the minutes of a range, and up to when the tables go."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
        from deltalake import DeltaTable
        from pyarrow import fs

        options = storage_options(self._root)
        steps = DeltaTable(f"{self._root}/steps", storage_options=options)
        [step] = steps.to_pyarrow_table().to_pylist()[-1:]
        version = dict(step["versions"]).get(_TABLE)
        horizon = step["horizon"].timestamp() if step["horizon"] else 0.0
        if version is None:
            return [], horizon
        first = datetime.fromtimestamp(wanted.start, UTC)
        last = first + timedelta(seconds=wanted.step * wanted.number)
        place = f"{self._root}/{_TABLE}"
        table = DeltaTable(place, version=version, storage_options=options)
        files = [
            row["path"]
            for row in pa.table(table.get_add_actions(flatten=True)).to_pylist()
            if row["partition.day"] is None or first.date() <= row["partition.day"] <= last.date()
        ]
        local = (fs.LocalFileSystem(), place)
        system, base = fs.FileSystem.from_uri(place) if self._is_remote else local
        found: list[dict[str, Any]] = []
        is_inside = (pc.field("minute") >= first) & (pc.field("minute") < last)
        for each in files:
            rows = pq.read_table(
                f"{base}/{each}", columns=list(_COLUMNS), filters=is_inside, filesystem=system
            )
            found += rows.to_pylist()
        return found, horizon


def storage_options(
    root: str, environment: Mapping[str, str] = os.environ
) -> dict[str, str] | None:
    """Return what delta-rs does not take from the environment; None for a folder."""
    if "://" not in root:
        return None
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL", "")
    # delta-rs refuses `http://` unless it is told.
    return _PATIENCE | ({"allow_http": "true"} if endpoint.startswith("http://") else {})


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
