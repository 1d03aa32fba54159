"""Copying an export: segments before the manifest; a copy grows and never mixes two ledgers."""

import json
from pathlib import Path

import pytest
from tests.pipeline.records import History, export, listed, relist

from dragoman.pipeline import upload as module
from dragoman.pipeline.export import Export
from dragoman.pipeline.manifest import (
    ManifestDamaged,
    OtherLedger,
    SegmentDamaged,
    SegmentMissing,
)
from dragoman.pipeline.upload import upload


def make_export(folder: Path, jobs: int = 6, service: str = "math") -> Path:
    history = History()
    for n in range(jobs):
        history.submit(f"j{n}", service=service)
    export(folder, history.records, 2, 4)
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three segments of two records."""
    return make_export(tmp_path / "export")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def test_a_copy_has_the_same_segments_and_a_second_upload_copies_nothing(
    source: Path, target: Path
) -> None:
    done = upload(str(source), str(target))
    assert (done.after, done.upto, done.segments) == (0, 6, 3)
    assert Export(str(target)).segments() == Export(str(source)).segments()
    copy = Export(str(target))
    assert all(copy.read(each.segment) for each in copy.after(0))
    again = upload(str(source), str(target))
    assert (again.after, again.upto, again.segments, again.bytes) == (6, 6, 0, 0)


def test_a_copy_keeps_segments_that_the_broker_removed(source: Path, target: Path) -> None:
    whole = listed(source)
    relist(source, whole[:2])
    upload(str(source), str(target))
    relist(source, whole[1:])
    assert upload(str(source), str(target)).segments == 1
    assert [s.first for s in Export(str(target)).segments()] == [1, 3, 5]


def test_records_that_were_removed_before_the_upload_stop_it(source: Path, target: Path) -> None:
    whole = listed(source)
    relist(source, whole[:1])
    upload(str(source), str(target))
    relist(source, whole[2:])
    with pytest.raises(SegmentMissing, match="records 3 to 4"):
        upload(str(source), str(target))


def test_a_damaged_segment_is_not_copied(source: Path, target: Path) -> None:
    (source / listed(source)[1]["file"]).write_bytes(b"x")
    with pytest.raises(SegmentDamaged):
        upload(str(source), str(target))
    assert not (target / "manifest.json").exists()


def test_the_manifest_is_written_last(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(module, "write_bytes", lambda uri, data: written.append(uri))
    upload(str(source), str(target))
    assert [Path(uri).name == "manifest.json" for uri in written] == [False, False, False, True]


def test_another_ledger_is_refused(source: Path, target: Path, tmp_path: Path) -> None:
    upload(str(source), str(target))
    before = json.loads((target / "manifest.json").read_text())
    with pytest.raises(OtherLedger, match="differs"):
        upload(str(make_export(tmp_path / "other", 8, "text")), str(target))
    with pytest.raises(OtherLedger, match="up to 6, but this export ends at 4"):
        upload(str(make_export(tmp_path / "older", 4)), str(target))
    assert json.loads((target / "manifest.json").read_text()) == before


def test_another_ledger_is_refused_though_no_file_has_the_same_name(
    source: Path, target: Path, tmp_path: Path
) -> None:
    upload(str(source), str(target))
    history = History()
    for n in range(9):
        history.submit(f"j{n}", service="text")
    with pytest.raises(OtherLedger, match="its record 6 differs"):
        upload(export(tmp_path / "other", history.records, 5), str(target))
    assert len(Export(str(target)).segments()) == 3


@pytest.mark.parametrize("text", [b'{"segments": [', b"{}", b"\xff"])
def test_a_damaged_manifest_at_the_target_is_named(source: Path, target: Path, text: bytes) -> None:
    target.mkdir()
    (target / "manifest.json").write_bytes(text)
    with pytest.raises(
        ManifestDamaged, match=r"copy/manifest.json is damaged: .*restore this file"
    ):
        upload(str(source), str(target))
    assert [path.name for path in target.iterdir()] == ["manifest.json"]


def test_a_node_that_is_behind_has_nothing_to_copy(tmp_path: Path, target: Path) -> None:
    upload(str(make_export(tmp_path / "a", 6)), str(target), is_one_of_several=True)
    behind = make_export(tmp_path / "b", 4)
    done = upload(str(behind), str(target), is_one_of_several=True)
    assert (done.after, done.upto, done.segments) == (6, 6, 0)


def test_nodes_that_cut_at_different_records_give_each_record_once(
    tmp_path: Path, target: Path
) -> None:
    upload(str(make_export(tmp_path / "a", 6)), str(target), is_one_of_several=True)
    history = History()
    for n in range(9):
        history.submit(f"j{n}")
    other = export(tmp_path / "b", history.records, 5, 8)
    assert upload(other, str(target), is_one_of_several=True).segments == 2
    copy = Export(str(target))
    assert [(s.first, s.last, s.rows) for s in copy.segments()][-2:] == [(7, 8, 2), (9, 9, 1)]
    assert all(copy.read(each.segment) for each in copy.after(0))


def test_another_ledger_is_refused_by_its_records_too(tmp_path: Path, target: Path) -> None:
    upload(str(make_export(tmp_path / "a", 6)), str(target), is_one_of_several=True)
    other = make_export(tmp_path / "other", 8, "text")
    with pytest.raises(OtherLedger, match="its record 6 differs"):
        upload(str(other), str(target), is_one_of_several=True)


def test_a_late_writer_does_not_change_what_is_published(
    source: Path, target: Path, tmp_path: Path
) -> None:
    upload(str(source), str(target), is_one_of_several=True)
    for each in listed(target):
        assert each["sha256"][:16] in each["file"]
