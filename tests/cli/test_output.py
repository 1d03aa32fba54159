"""How things are shown."""

import json
from pathlib import Path

import pytest

from dragoman.cli.output import duration, print_done, print_json, print_rows


def test_bytes_are_text_where_they_are_and_hex_where_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_json({"a": b"text", "b": b"\xff"})
    assert json.loads(capsys.readouterr().out) == {"a": "text", "b": "0xff"}


def test_rows_are_a_table_or_json_or_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"long_name": ["a", "b"], "none": None}]
    print_rows(rows, False, "nothing")
    out = capsys.readouterr().out
    assert "long name" in out
    assert "a, b" in out
    print_rows([], False, "nothing")
    assert capsys.readouterr().out == "nothing\n"
    print_rows(rows, True, "nothing")
    assert json.loads(capsys.readouterr().out) == rows


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (7100, "118 min"),
        (7200, "2 h"),
        (1e6, "12 d"),
    ],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_a_command_did_is_a_sentence_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_done("wrote it", False, file="f")
    assert capsys.readouterr().out == "wrote it\n"
    print_done("wrote it", True, file=Path("f"))
    assert json.loads(capsys.readouterr().out) == {"file": "f"}
