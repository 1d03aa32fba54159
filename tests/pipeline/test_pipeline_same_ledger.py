"""Tables are of one ledger: what another one exported never gets into them."""

from pathlib import Path

import pytest
from tests.pipeline.records import NOON, History, export, listed, relist

from dragoman.ledger.segment_retention import read_positions
from dragoman.pipeline.embedded.run import follow, run_embedded
from dragoman.pipeline.export import Export
from dragoman.pipeline.manifest import OtherLedger
from dragoman.pipeline.same_ledger import new_ranges
from dragoman.pipeline.snapshot import read_snapshot


def make_export(folder: Path, jobs: int, cut: int, *, start: float = NOON) -> str:
    history = History(start)
    for n in range(jobs):
        history.submit(f"j{n}")
    return export(folder, history.records, cut)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Tables with six records of a ledger."""
    root = str(tmp_path / "tables")
    run_embedded(make_export(tmp_path / "first", 6, 4), root)
    return root


def pending(source: str, root: str) -> list[tuple[int, int]]:
    found = new_ranges(Export(source), root, read_snapshot(root))
    return [(each.after, each.last) for each in found]


def test_the_same_ledger_goes_on_wherever_its_segments_are_cut(tmp_path: Path, root: str) -> None:
    assert pending(make_export(tmp_path / "more", 9, 5), root) == [(6, 9)]
    assert pending(make_export(tmp_path / "later", 9, 6), root) == [(6, 9)]


@pytest.mark.parametrize("jobs", [9, 5])
def test_another_ledger_is_refused_and_changes_nothing(
    tmp_path: Path, root: str, jobs: int
) -> None:
    other = make_export(tmp_path / "other", jobs, 3, start=NOON + 1)
    before = read_snapshot(root)
    with pytest.raises(OtherLedger, match=r"their record \d is not that of .*other"):
        run_embedded(other, root)
    with pytest.raises(OtherLedger, match="choose another folder"):
        follow(other, root, every=None)
    assert read_snapshot(root) == before
    assert read_positions(Path(other)) == {}


def test_an_older_copy_of_the_ledger_has_nothing_new(tmp_path: Path, root: str) -> None:
    assert pending(make_export(tmp_path / "older", 5, 3), root) == []


def test_records_that_the_export_has_no_more_are_not_compared(tmp_path: Path, root: str) -> None:
    source = make_export(tmp_path / "other", 9, 6, start=NOON + 1)
    whole = listed(tmp_path / "other")
    relist(tmp_path / "other", whole[1:])
    assert pending(source, root) == [(6, 9)]


@pytest.mark.parametrize("content", [b"", b"no Parquet", None])
def test_a_segment_that_was_read_before_need_not_be_readable(
    tmp_path: Path, root: str, content: bytes | None
) -> None:
    source = make_export(tmp_path / "more", 9, 6)
    path = tmp_path / "more" / listed(tmp_path / "more")[0]["file"]
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert pending(source, root) == [(6, 9)]
