from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.records import rows

from dragoman.pipeline import table_state
from dragoman.pipeline.delta import ConcurrentWriter, DeltaLog
from dragoman.pipeline.maintenance import repair
from dragoman.pipeline.schema import columns
from dragoman.pipeline.snapshot import commit_snapshot
from dragoman.pipeline.store import TableStore, TableTransaction

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
SCHEMA = columns("""
    name string
    day date
""")
TABLES = ("a", "b", "c")
MON, TUE, WED = date(2026, 1, 5), date(2026, 1, 6), date(2026, 1, 7)
NOW = datetime(2026, 1, 7, 12, 0, 0, 5, UTC)


def named(spark: SparkSession, *found: tuple[str, date | None]) -> DataFrame:
    return spark.createDataFrame([*found], SCHEMA)


def names(store: TableStore, table: str, since: date | None = None) -> list[str]:
    return [name for (name,) in rows(store.read(table, SCHEMA, since), "name")]


def test_settled_rows_add_up_and_unsettled_ones_are_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, str(tmp_path))
    step = store.begin()
    step.append("t", named(spark, ("a", MON), ("open", None)))
    step.commit(1, NOW)
    step = store.begin()
    step.append("t", named(spark, ("b", TUE), ("still open", None)))
    assert rows(step.written("t", SCHEMA), "name") == [("b",), ("still open",)]
    step.commit(2, NOW)
    assert store.written == {"t": 2}
    again = TableStore(spark, str(tmp_path))
    assert names(again, "t") == ["a", "b", "still open"]
    assert names(again, "t", TUE) == ["b", "still open"]
    assert (again.snapshot.seq, again.snapshot.horizon) == (2, NOW)


def test_days_from_one_on_are_replaced_and_carried_tables_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, str(tmp_path))
    step = store.begin()
    step.replace("t", named(spark, ("a", MON), ("b", TUE), ("c", WED)), MON)
    step.carry("c", named(spark, ("x", None)).select("name"))
    step.commit(1, NOW)
    step = store.begin()
    step.replace("t", named(spark, ("B", TUE)), TUE)
    step.carry("c", named(spark, ("y", None)).select("name"))
    step.commit(2, NOW)
    assert names(store, "t") == ["B", "a"]
    assert rows(store.read("c", columns("name string")), "name") == [("y",)]


def test_rows_that_are_written_again_replace_the_first_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, str(tmp_path))
    step = store.begin()
    step.append("t", named(spark, ("a", MON), ("a", MON)))
    step.append("t", step.written("t", SCHEMA).distinct())
    step.commit(1, NOW)
    assert names(TableStore(spark, str(tmp_path)), "t") == ["a"]


def test_a_table_that_was_never_written_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    found = TableStore(spark, str(tmp_path)).read("t", SCHEMA)
    assert found.schema.simpleString() == SCHEMA.simpleString()
    assert rows(found, "name") == []


def test_an_earlier_step_can_still_be_read(spark: SparkSession, tmp_path: Path) -> None:
    store = TableStore(spark, str(tmp_path))
    for n in (1, 2):
        step = store.begin()
        step.append("t", named(spark, (f"row {n}", MON)))
        step.commit(n, NOW)
    assert names(TableStore(spark, str(tmp_path), version=1), "t") == ["row 1"]


def test_a_column_that_is_new_is_null_in_older_rows(spark: SparkSession, tmp_path: Path) -> None:
    store = TableStore(spark, str(tmp_path))
    step = store.begin()
    step.append("t", named(spark, ("old", MON)))
    step.commit(1, NOW)
    wider = columns("name string\nn bigint\nday date")
    step = store.begin()
    step.append("t", spark.createDataFrame([("new", 5, TUE)], wider))
    step.commit(2, NOW)
    again = TableStore(spark, str(tmp_path))
    assert rows(again.read("t", wider), "name", "n") == [("new", 5), ("old", None)]
    table = DeltaLog(str(tmp_path / "t")).open()
    assert table is not None
    assert [f.name for f in table.schema().fields] == ["name", "day", "n"]


# --- two writers, and kills -------------------------------------------------------------------


def step_of(spark: SparkSession, root: Path, name: str) -> TableTransaction:
    """Begin a step that writes all tables."""
    step = TableStore(spark, str(root)).begin()
    for table in TABLES:
        step.append(table, named(spark, (name, MON)))
    return step


def positions(spark: SparkSession, root: Path) -> set[tuple[str, ...]]:
    store = TableStore(spark, str(root))
    return {tuple(names(store, table)) for table in TABLES}


def newest(root: Path) -> list[list[str]]:
    """Read the newest version of each table as another engine does: without the step log."""
    found = (DeltaLog(str(root / table)).open() for table in TABLES)
    rows = [t.to_pyarrow_table().to_pylist() for t in found if t is not None]
    return [sorted(row["name"] for row in each) for each in rows]


@pytest.mark.parametrize("first_commits", [0, 1])
def test_of_two_writers_one_is_refused_and_harms_nothing(
    spark: SparkSession, tmp_path: Path, first_commits: int
) -> None:
    if first_commits:
        step_of(spark, tmp_path, "before").commit(1, NOW)
    one, two = step_of(spark, tmp_path, "one"), step_of(spark, tmp_path, "two")
    one.commit(2, NOW)
    with pytest.raises(ConcurrentWriter):
        two.commit(2, NOW)
    wanted = ["before", "one"] if first_commits else ["one"]
    assert positions(spark, tmp_path) == {tuple(wanted)}
    repair(str(tmp_path))
    assert newest(tmp_path) == [wanted] * len(TABLES)


class Killed(BaseException):
    """Stands for signal 9: nothing runs after it."""


def killed_at(monkeypatch: pytest.MonkeyPatch, number: int, before: bool) -> None:
    """Kill at the n-th commit of the next step, before or after it is done."""
    done = [0]
    table_commit, step_commit = DeltaLog.commit, commit_snapshot

    def kill_here(is_before: bool) -> None:
        done[0] += is_before
        if done[0] == number and is_before == before:
            raise Killed

    def commit(*arguments: object) -> int:
        kill_here(True)
        version = table_commit(*arguments)  # type: ignore[arg-type]
        kill_here(False)
        return version

    def commit_steps(*arguments: object) -> None:
        kill_here(True)
        step_commit(*arguments)  # type: ignore[arg-type]
        kill_here(False)

    monkeypatch.setattr(DeltaLog, "commit", commit)
    monkeypatch.setattr(table_state, "commit_snapshot", commit_steps)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("number", range(1, len(TABLES) + 2))
def test_a_step_that_is_killed_in_any_commit_is_seen_whole_or_not_at_all(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    before: bool,
) -> None:
    step_of(spark, tmp_path, "first").commit(1, NOW)
    with monkeypatch.context() as patch:
        killed_at(patch, number, before)
        with pytest.raises(Killed):
            step_of(spark, tmp_path, "second").commit(2, NOW)
    is_done = number > len(TABLES) and not before
    seen = ("first", "second") if is_done else ("first",)
    assert positions(spark, tmp_path) == {seen}
    # The next writer does not know of it; all versions of its tables are its own.
    step_of(spark, tmp_path, "third").commit(3, NOW)
    assert positions(spark, tmp_path) == {(*seen, "third")}
    assert newest(tmp_path) == [[*seen, "third"]] * len(TABLES)


def test_a_slow_writer_that_commits_beside_another_cannot_mix_their_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_of(spark, tmp_path, "first").commit(1, NOW)
    slow, quick = step_of(spark, tmp_path, "slow"), step_of(spark, tmp_path, "quick")
    table_commit = DeltaLog.commit
    begun: list[str] = []

    def commit(self: DeltaLog, *arguments: object) -> int:
        version = table_commit(self, *arguments)  # type: ignore[arg-type]
        if not begun:
            # After the first table of the slow one, the other commits everything.
            begun.append(self.uri)
            quick.commit(2, NOW)
        return version

    monkeypatch.setattr(DeltaLog, "commit", commit)
    with pytest.raises(ConcurrentWriter):
        slow.commit(2, NOW)
    assert positions(spark, tmp_path) == {("first", "quick")}
    repair(str(tmp_path))
    assert newest(tmp_path) == [["first", "quick"]] * len(TABLES)
