"""How things are shown."""

import json

import pytest

from dragoman.cli.output import print_json, print_rows


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
