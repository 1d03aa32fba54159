"""`make pipeline-chaos`: kill runs of the pipeline at every phase, and let two of them race.

Each kill is a signal 9 that a real process, with its JVM if it has one, gets at an exact point:
before or after a table is written, before or after a table or the step is committed. Afterwards the
tables must be whole, at the position before or after the step, and a later run must give those of a
run without kills. In a race two real processes begin at the same moment on the same tables, while
a reader looks: it must always see all tables at one position. Prints a table of what happened.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

from dragoman.pipeline import table_state
from dragoman.pipeline.delta import DeltaLog
from dragoman.pipeline.embedded.run import follow, run_embedded
from dragoman.pipeline.files import read_files
from dragoman.pipeline.snapshot import commit_snapshot
from dragoman.pipeline.synth import synthesise
from dragoman.pipeline.synth_plants import PLANTS
from dragoman.pipeline.table_state import StepState, TableState
from dragoman.pipeline.tables import TABLES

RECORDS: Final = 6_000
SEGMENT: Final = 1_500
#: The points at which a step is killed: each table is written and committed, then the step.
WRITTEN: Final = (*TABLES, "carried_life", "carried_control", "session_days")
POINTS: Final = (
    *(
        f"{when} {what} {table}"
        for table in WRITTEN
        for what in ("write", "commit")
        for when in ("before", "after")
    ),
    "before commit steps",
    "after commit steps",
)
#: Characters of an error that are shown.
_TAIL: Final = 2_000
#: The commands that race, by engine.
PAIRS: Final = (("run", "run"), ("run", "stream"))


class ChaosFailed(Exception):
    """Tables that differ from those of a run without faults."""


def digests(state: TableState) -> dict[str, str]:
    """Return a digest of the rows of every table, in any order of rows and files."""
    found = {}
    for name, schema in TABLES.items():
        rows = read_files(state.root, name, schema, state.files(name).values()).to_pylist()
        text = "\n".join(sorted(map(repr, rows)))
        found[name] = hashlib.sha256(text.encode()).hexdigest()
    return found


# --- the process that is killed ---------------------------------------------------------------


def kill_at(point: str) -> None:
    """Patch the writer so that this process and its JVM die at a point."""

    def die(here: str) -> None:
        if here == point:
            os.killpg(0, signal.SIGKILL)

    take, commit, commit_steps = StepState.take, DeltaLog.commit, commit_snapshot
    folder = StepState.folder

    def folder_of(self: StepState, table: str) -> str:
        die(f"before write {table}")
        return folder(self, table)

    def taken(self: StepState, table: str, *rest: Any) -> None:
        take(self, table, *rest)
        die(f"after write {table}")

    def committed(self: DeltaLog, *rest: Any) -> int:
        name = self.uri.rstrip("/").rpartition("/")[2]
        die(f"before commit {name}")
        version = commit(self, *rest)
        die(f"after commit {name}")
        return version

    def steps(*rest: Any) -> None:
        die("before commit steps")
        commit_steps(*rest)
        die("after commit steps")

    mock.patch.object(StepState, "folder", folder_of).start()
    mock.patch.object(StepState, "take", taken).start()
    mock.patch.object(DeltaLog, "commit", committed).start()
    mock.patch.object(table_state, "commit_snapshot", steps).start()


def work(engine: str, command: str, source: str, root: str) -> None:
    """Do what a command of the pipeline does."""
    if engine == "duckdb":
        if command == "run":
            run_embedded(source, root)
        else:
            follow(source, root, every=None, most_rows=SEGMENT)
        return
    from dragoman.pipeline.run import run
    from dragoman.pipeline.session import open_session
    from dragoman.pipeline.stream import stream

    spark = open_session("local[1]", memory="1g", rows=RECORDS)
    if command == "run":
        run(spark, source, root)
    else:
        stream(spark, source, root, every=None, most_rows=SEGMENT).awaitTermination()
    spark.stop()


def start(
    engine: str, command: str, source: str, root: str, point: str = ""
) -> subprocess.Popen[bytes]:
    """Start such a process, in its own process group."""
    words = ("--child", json.dumps([engine, command, source, root, point]))
    return subprocess.Popen(
        [sys.executable, __file__, *words],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def end(process: subprocess.Popen[bytes]) -> str:
    """Stop a process that still runs; return the end of what it said."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()[1].decode()[-_TAIL:]


# --- the rounds -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lab:
    """A ledger, tables that have its first segment, and the digests that tables must have."""

    folder: Path
    source: str
    begun: Path
    wanted: dict[int, dict[str, str]]

    def copy(self, name: str) -> str:
        """Return the path of fresh tables that have the first segment."""
        root = self.folder / name
        shutil.copytree(self.begun, root)
        return str(root)

    def check(self, root: str, what: str) -> int:
        """Compare all tables with the reference at their position; return it."""
        state = TableState(root)
        seq = state.snapshot.seq
        found, wanted = digests(state), self.wanted.get(seq)
        if wanted is None:
            raise ChaosFailed(f"{what}: the tables are at record {seq}, between two segments")
        if wrong := [name for name in found if found[name] != wanted[name]]:
            raise ChaosFailed(f"{what}: at record {seq} these tables differ: {', '.join(wrong)}")
        return seq


def make_lab(folder: Path) -> Lab:
    """Make a ledger, and its tables after each segment."""
    source, begun = str(folder / "export"), folder / "begun"
    synthesise(folder / "export", RECORDS, seed=5, plants=[*PLANTS], segment_rows=SEGMENT)
    wanted: dict[int, dict[str, str]] = {}
    root = str(folder / "reference")
    while run_embedded(source, root, most_rows=SEGMENT).segments:
        state = TableState(root)
        wanted[state.snapshot.seq] = digests(state)
        if not begun.exists():
            shutil.copytree(root, begun)
    return Lab(folder, source, begun, wanted)


def kill(lab: Lab, engine: str, point: str, number: int) -> str:
    """Kill a run at a point; return whether its step was done."""
    root = lab.copy(f"kill-{number}")
    process = start(engine, "run", lab.source, root, point)
    _, said = process.communicate()
    if process.returncode != -signal.SIGKILL:
        text = said.decode()[-_TAIL:]
        raise ChaosFailed(f"{point}: not killed, but {process.returncode}: {text}")
    position = lab.check(root, f"killed {point}")
    work("duckdb", "run", lab.source, root)
    if lab.check(root, f"run again after a kill {point}") != RECORDS:
        raise ChaosFailed(f"{point}: the later run did not read everything")
    shutil.rmtree(root)
    return "step done" if position == RECORDS else "step undone"


def race(lab: Lab, engines: Sequence[str], commands: Sequence[str], number: int) -> str:
    """Let two processes race on the same tables; return how often a reader looked."""
    root = lab.copy(f"race-{number}")
    what = " beside ".join(" ".join(pair) for pair in zip(engines, commands, strict=True))
    rivals = [start(e, c, lab.source, root) for e, c in zip(engines, commands, strict=True)]
    looks = 0
    try:
        while any(process.poll() is None for process in rivals):
            lab.check(root, f"a reader beside {what}")
            looks += 1
    finally:
        said = [end(process) for process in rivals]
    for process, text in zip(rivals, said, strict=True):
        if process.returncode:
            raise ChaosFailed(f"{what}: ended with {process.returncode}: {text}")
    if lab.check(root, what) != RECORDS:
        raise ChaosFailed(f"{what}: not everything was read")
    shutil.rmtree(root)
    return f"{looks} looks"


def chaos(
    lab: Lab,
    kills: Sequence[tuple[str, str]],
    races: Sequence[tuple[Sequence[str], Sequence[str]]],
) -> Iterator[tuple[str, str]]:
    """Do the rounds; yield a line for each. Raises `ChaosFailed` at the first wrong table."""
    for number, (engine, point) in enumerate(kills):
        yield f"{engine} killed {point}", kill(lab, engine, point, number)
    for number, (engines, commands) in enumerate(races):
        what = " beside ".join(f"{e} {c}" for e, c in zip(engines, commands, strict=True))
        yield what, race(lab, engines, commands, number)


def main() -> None:
    """Run the chaos, or be one of its processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30, help="kills of runs by DuckDB")
    parser.add_argument("--spark-kills", type=int, default=4, help="kills of runs by Spark")
    parser.add_argument("--races", type=int, default=10, help="races of two runs by DuckDB")
    parser.add_argument("--spark-races", type=int, default=2, help="races of Spark and DuckDB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        engine, command, source, root, point = json.loads(asked.child)
        kill_at(point)
        work(engine, command, source, root)
        return
    dice = random.Random(asked.seed)
    points = [
        POINTS[n % len(POINTS)]
        for n in dice.sample(range(max(len(POINTS), asked.kills)), asked.kills)
    ]
    kills = [("duckdb", point) for point in points]
    kills += [("spark", dice.choice(POINTS)) for _ in range(asked.spark_kills)]
    races = [(("duckdb", "duckdb"), PAIRS[n % 2]) for n in range(asked.races)]
    races += [(("spark", "duckdb"), PAIRS[n % 2]) for n in range(asked.spark_races)]
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for what, result in chaos(make_lab(Path(folder)), kills, races):
            print(f"{what}: {result}", flush=True)
            found[result] += " killed " in what
    print(f"held: {len(kills)} kills ({found['step done']} with the step done), {len(races)} races")


if __name__ == "__main__":
    main()
