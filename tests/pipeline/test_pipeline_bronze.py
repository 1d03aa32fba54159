"""Bronze: a segment is copied if it can be, else its new records are written again."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.pipeline.records import NOON, History, export, listed

from dragoman.ledger.segments import SEGMENT_SCHEMA
from dragoman.model.record import Record
from dragoman.pipeline import events
from dragoman.pipeline.bronze import Arrival, write_events
from dragoman.pipeline.export import Export
from dragoman.pipeline.files import arrow_schema, read_files
from dragoman.pipeline.manifest import SegmentDamaged, SegmentMissing, SegmentRange
from dragoman.pipeline.table_state import StepState, TableState

MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)
MIDNIGHT = NOON + 12 * 3600


def ticks(*seqs: int, at: float = NOON) -> list[Record]:
    return [Record(seq, at + seq, "progress") for seq in seqs]


class Written:
    """What one step wrote of an export."""

    def __init__(self, source: str, root: Path, ranges: Sequence[SegmentRange] = ()) -> None:
        self.root, exported = str(root), Export(source)
        self.step = StepState(TableState(self.root))
        self.arrival: Arrival = write_events(self.step, exported, ranges or exported.after(0))
        self.files = self.step.fresh(events.TABLE)

    def rows(self, *names: str) -> list[tuple[object, ...]]:
        found = read_files(self.root, events.TABLE, events.SCHEMA, self.files).to_pylist()
        return sorted(tuple(row[name] for name in names) for row in found)

    def data(self) -> list[bytes]:
        return [Path(self.root, events.TABLE, f.path).read_bytes() for f in self.files]


def test_whole_segments_of_one_day_are_copied_byte_for_byte(tmp_path: Path) -> None:
    url = f"file://{export(tmp_path / 'with space', ticks(1, 2, 3), 2)}"
    found = Written(url, tmp_path / "tables")
    segments = [tmp_path / "with space" / s["file"] for s in listed(tmp_path / "with space")]
    assert sorted(found.data()) == sorted(path.read_bytes() for path in segments)
    assert found.rows("seq", "day") == [(1, MONDAY), (2, MONDAY), (3, MONDAY)]
    assert found.arrival.earliest == datetime.fromtimestamp(NOON + 1, UTC)
    assert found.arrival.latest == datetime.fromtimestamp(NOON + 3, UTC)
    assert len(found.arrival.gaps) == len(found.arrival.repeats) == 0


def test_a_copy_does_not_change_with_its_segment(tmp_path: Path) -> None:
    source = export(tmp_path / "export", ticks(1, 2))
    found = Written(source, tmp_path / "tables")
    segment = tmp_path / "export" / listed(tmp_path / "export")[0]["file"]
    before = segment.read_bytes()
    segment.write_bytes(b"rotten")
    assert found.data() == [before]


def test_a_segment_over_midnight_becomes_a_file_for_each_day(tmp_path: Path) -> None:
    records = ticks(1, 2, 3, at=MIDNIGHT - 2)
    found = Written(export(tmp_path / "export", records), tmp_path / "tables")
    assert found.rows("seq", "day") == [(1, MONDAY), (2, TUESDAY), (3, TUESDAY)]
    assert len(found.files) == 2


def test_of_a_part_of_a_segment_only_that_part_is_written(tmp_path: Path) -> None:
    source = export(tmp_path / "export", ticks(*range(1, 11)), 5)
    whole = Export(source).after(0)
    assert [(r.after, r.last) for r in Export(source).after(2, 8)] == [(2, 5), (5, 8)]
    found = Written(source, tmp_path / "tables", Export(source).after(2, 8))
    assert found.rows("seq") == [(3,), (4,), (5,), (6,), (7,), (8,)]
    overlapping = [whole[0], replace(whole[1], after=7)]
    again = Written(source, tmp_path / "others", overlapping)
    assert again.rows("seq") == [(1,), (2,), (3,), (4,), (5,), (8,), (9,), (10,)]


def test_a_hole_and_a_repeat_do_not_hide_each_other(tmp_path: Path) -> None:
    source = export(tmp_path / "export", ticks(3, 4, 6, 7, 7, 8))
    segment = Export(source).segments()[0]
    found = Written(source, tmp_path / "tables", [SegmentRange(segment, 2, 10)])
    assert found.arrival.gaps.to_pylist() == [{"first": 5, "last": 5}, {"first": 9, "last": 10}]
    seventh = datetime.fromtimestamp(NOON + 7, UTC)
    assert found.arrival.repeats.to_pylist() == [{"seq": 7, "times": 2, "at": seventh}]
    assert found.rows("seq") == [(3,), (4,), (6,), (7,), (8,)]


@pytest.mark.parametrize("is_turned", [False, True])
def test_of_repeated_records_the_same_one_is_kept_in_any_order(
    tmp_path: Path, is_turned: bool
) -> None:
    one = Record(1, NOON, "progress", detail="b")
    both = [one, replace(one, detail="a"), replace(one, submitted_at=NOON)]
    records = [*reversed(both)] if is_turned else both
    found = Written(export(tmp_path / "export", records), tmp_path / "tables")
    assert found.rows("seq", "detail") == [(1, "a")]


def test_records_out_of_order_are_sorted(tmp_path: Path) -> None:
    source = export(tmp_path / "export", ticks(1, 2, 3))
    path = tmp_path / "export" / listed(tmp_path / "export")[0]["file"]
    pq.write_table(pq.read_table(path).take([0, 2, 1]), path)
    segment = replace(Export(source).segments()[0], sha256=_digest(path))
    found = Written(source, tmp_path / "tables", [SegmentRange(segment, 0, 3)])
    assert len(found.arrival.gaps) == len(found.arrival.repeats) == 0
    assert pq.read_table(tmp_path / "tables" / "events" / found.files[0].path)[
        "seq"
    ].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("column", ["parent", "nbytes"])
def test_a_segment_of_other_columns_is_written_with_those_of_a_record(
    tmp_path: Path, column: str
) -> None:
    source = export(tmp_path / "export", ticks(1, 2))
    path = tmp_path / "export" / listed(tmp_path / "export")[0]["file"]
    old = pq.read_table(path)
    if column == "parent":
        old = old.drop_columns([column])
    else:
        at = old.schema.get_field_index(column)
        old = old.set_column(at, column, old[column].cast("int32"))
    pq.write_table(old, path)
    segment = replace(Export(source).segments()[0], sha256=_digest(path))
    found = Written(source, tmp_path / "tables", [SegmentRange(segment, 0, 2)])
    [file] = found.files
    written = pq.read_schema(tmp_path / "tables" / "events" / file.path)
    wanted = [f for f in arrow_schema(events.SCHEMA) if f.name != "day"]
    assert [(f.name, f.type) for f in written] == [(f.name, f.type) for f in wanted]
    assert found.rows("seq", column)[0] == (1, None if column == "parent" else 0)


def test_the_columns_of_a_segment_are_those_of_bronze() -> None:
    wanted = {f.name: f.type for f in arrow_schema(events.SCHEMA) if f.name != "day"}
    assert {f.name: f.type for f in SEGMENT_SCHEMA} == wanted


def test_a_damaged_segment_is_not_copied(tmp_path: Path) -> None:
    source = export(tmp_path / "export", ticks(1, 2, 3), 2)
    path = tmp_path / "export" / listed(tmp_path / "export")[1]["file"]
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(SegmentDamaged, match="records 3 to 3"):
        Written(source, tmp_path / "tables")


def test_segments_without_records_are_refused(tmp_path: Path) -> None:
    source = export(tmp_path / "export", ticks(1, 2))
    segment = Export(source).segments()[0]
    with pytest.raises(SegmentMissing, match=r"no records .records 3 to 9"):
        Written(source, tmp_path / "tables", [SegmentRange(segment, 2, 9)])


def _digest(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_history_of_a_day_is_one_file_for_each_segment(tmp_path: Path) -> None:
    history = History()
    for n in range(4):
        history.submit(f"j{n}")
    found = Written(export(tmp_path / "export", history.records, 1, 2), tmp_path / "tables")
    assert sorted(file.rows for file in found.files) == [1, 1, 2]
    assert {file.day for file in found.files} == {MONDAY}
