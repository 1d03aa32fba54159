from dataclasses import replace
from pathlib import Path

import pytest
from tests.pipeline.records import History, export

from dragoman.pipeline.export import Export
from dragoman.pipeline.manifest import ManifestDamaged, SegmentDamaged, SegmentMissing


@pytest.fixture
def exported(tmp_path: Path) -> Export:
    history = History()
    for n in range(4):
        history.submit(f"j{n}")
    return Export(f"file://{export(tmp_path / 'with space', history.records, 2)}")


def test_what_follows_a_position_is_planned_from_the_manifest(exported: Export) -> None:
    assert [(r.after, r.last) for r in exported.after(0)] == [(0, 2), (2, 4)]
    assert [(r.after, r.last) for r in exported.after(3)] == [(3, 4)]
    assert [(r.after, r.last) for r in exported.after(0, 3)] == [(0, 2), (2, 3)]
    assert exported.after(4) == []


def test_a_segment_of_another_content_or_without_a_file_is_named(exported: Export) -> None:
    first, second = exported.segments()
    assert len(exported.read(first)) == first.bytes
    with pytest.raises(SegmentDamaged, match=r"differs from the manifest .records 3 to 4"):
        exported.read(replace(second, sha256="0" * 64))
    with pytest.raises(SegmentMissing, match=r"seg-gone.parquet does not exist"):
        exported.read(replace(first, file="seg-gone.parquet"))


def test_without_a_manifest_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no manifest"):
        Export(str(tmp_path)).segments()


@pytest.mark.parametrize("text", [b"", b'{"segments": [{"file"', b"\xff\xfe"])
def test_a_damaged_manifest_is_named(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(text)
    with pytest.raises(ManifestDamaged, match=r"/manifest.json is damaged: .*from a copy"):
        Export(str(tmp_path)).segments()
