"""The manifest of sealed segments."""

import json
from pathlib import Path

import pytest

from dragoman.ledger.atomic_file import no_step_hook
from dragoman.ledger.base import LedgerError
from dragoman.ledger.manifest import (
    MANIFEST,
    Manifest,
    SealedSegment,
    read_manifest,
    segment_name,
    write_manifest,
)
from dragoman.model.record import VERSION


def test_names_sort_as_their_records_do() -> None:
    assert segment_name(9, 10) == "seg-00000000000000000009-00000000000000000010.parquet"
    assert sorted([segment_name(100, 200), segment_name(9, 99)]) == [
        segment_name(9, 99),
        segment_name(100, 200),
    ]


def test_a_manifest_is_read_back_and_is_plain_json(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) == Manifest()
    assert read_manifest(tmp_path).last == 0
    segment = SealedSegment(segment_name(1, 9), 1, 9, 9, 4000, "ab", 1.0, 9.0)
    write_manifest(tmp_path, Manifest(segments=[segment]), no_step_hook)
    assert read_manifest(tmp_path) == Manifest(segments=[segment])
    assert read_manifest(tmp_path).last == 9
    assert json.loads((tmp_path / MANIFEST).read_text()) == {
        "version": 1,
        "segments": [
            {
                "file": segment_name(1, 9),
                "first": 1,
                "last": 9,
                "rows": 9,
                "bytes": 4000,
                "sha256": "ab",
                "min_at": 1.0,
                "max_at": 9.0,
                "schema_version": VERSION,
            }
        ],
    }


@pytest.mark.parametrize("content", ["", "{", "[]", '{"segments": [{"file": 5}]}'])
def test_a_damaged_manifest_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(LedgerError, match=r"manifest\.json is damaged"):
        read_manifest(tmp_path)
