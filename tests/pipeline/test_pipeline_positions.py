"""A pipeline tells the broker how far it has read; the broker reads just that."""

import logging
from pathlib import Path

import pytest

from dragoman.ledger import segment_retention
from dragoman.pipeline import positions
from dragoman.pipeline.positions import note_position


def test_the_broker_reads_what_the_pipeline_writes(tmp_path: Path) -> None:
    export = tmp_path / "sealed"
    export.mkdir()
    note_position(str(export), str(tmp_path / "tables"), 5)
    note_position(f"file://{export}", f"file://{tmp_path}/tables", 7)
    note_position(str(export), "s3://bucket/tables", 3)
    expected = {str(tmp_path / "tables"): 7, "s3://bucket/tables": 3}
    assert segment_retention.read_positions(export) == expected
    assert segment_retention.READERS == positions.READERS


def test_an_export_elsewhere_gets_no_position(tmp_path: Path) -> None:
    note_position("s3://bucket/sealed", str(tmp_path), 5)
    note_position(str(tmp_path / "missing"), str(tmp_path), 5)
    assert list(tmp_path.iterdir()) == []


def test_a_position_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / positions.READERS).write_text("in the way")
    with caplog.at_level(logging.WARNING):
        note_position(str(tmp_path), "tables", 5)
    assert "need segments after record 5" in caplog.text
