"""`dragoman audit verify`: the account is proved, or the record that is wrong is named."""

import json
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from tests.ledger.entries import fill, with_ledger

from dragoman.cli.audit import read_head
from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.main import app

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    with_ledger(tmp_path / "ledger.sqlite", lambda ledger: fill(ledger, 10))

    def command(*words: str) -> tuple[int, str, str]:
        code = run_to_exit_code(lambda: app(["audit", "verify", *words, "--data", str(tmp_path)]))
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def spoil(folder: Path) -> None:
    connection = apsw.Connection(str(folder / "ledger.sqlite"))
    connection.execute("UPDATE records SET principal = 'somebody else' WHERE seq = 4")
    connection.close()


def test_a_sound_ledger_has_a_head_for_the_next_audit(audit: Command) -> None:
    code, said, _ = audit()
    assert code == 0
    assert said.startswith("records 1 to 10: sound\nhead 10:")
    head = said.rpartition(" ")[2].strip()
    assert audit("--head", head)[0] == 0
    code, said, _ = audit("--head", "10:00")
    assert (code, "record 10 differs from an earlier audit" in said) == (1, True)


def test_a_record_that_was_touched_is_named(audit: Command, tmp_path: Path) -> None:
    spoil(tmp_path)
    code, said, _ = audit()
    assert code == 1
    assert "record 4 does not follow from the records before it" in said
    assert "NOT SOUND" in said
    found = json.loads(audit("--json")[1])
    assert (found["is_sound"], found["findings"][0]["seq"]) == (False, 4)


def test_a_ledger_is_named_by_its_file_and_none_is_an_error(audit: Command, tmp_path: Path) -> None:
    assert audit(str(tmp_path / "ledger.sqlite"))[0] == 0
    code, _, error = audit(str(tmp_path / "none"))
    assert (code, "no such ledger file" in error) == (1, True)


def test_a_head_has_a_form() -> None:
    assert read_head("") == {}
    assert read_head("5:abc") == {5: "abc"}
    with pytest.raises(ValueError, match="is not a head"):
        read_head("abc")


def test_an_anchor_is_signed_and_a_later_audit_is_compared_with_it(
    tmp_path: Path, audit: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    anchors = tmp_path / "anchors.jsonl"
    words = ["audit", "anchor", "--to", f"file://{anchors}", "--data", str(tmp_path)]
    assert run_to_exit_code(lambda: app(words)) == 0
    public = capsys.readouterr().err.split()[-1]
    assert audit("--anchor", str(anchors))[0] == 0
    assert audit("--anchor", str(anchors), "--anchor-key", public)[0] == 0
    other = "00" * 32
    code, _, error = audit("--anchor", str(anchors), "--anchor-key", other)
    assert (code, "line 1 is no anchor of this broker" in error) == (2, True)
    anchors.write_text("no anchor\n")
    assert audit("--anchor", str(anchors))[0] == 2
