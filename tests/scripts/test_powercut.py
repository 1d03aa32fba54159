"""The power cuts find a ledger that does not sync, and no fault in ours."""

from pathlib import Path

import apsw
import pytest

from dragoman.ledger import layout
from scripts import powercut


def test_a_cut_keeps_what_was_synced_and_applies_writes_in_order() -> None:
    content = powercut.apply_writes(b"abc", [(5, b"xy"), (1, b"B"), (-1, b"6")])
    assert content == b"aBc\0\0x"


@pytest.mark.process
def test_nothing_acknowledged_is_missing_after_power_cuts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert powercut.main(["--rounds", "3"]) == 0
    assert "none is missing" in capsys.readouterr().out


@pytest.mark.process
def test_a_ledger_that_does_not_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = layout.connect

    def without_sync(path: Path) -> apsw.Connection:
        connection = connect(path)
        connection.pragma("synchronous", "off")
        return connection

    monkeypatch.setattr(layout, "connect", without_sync)
    with pytest.raises((SystemExit, Exception), match=r"acknowledged|damaged|missing|at risk"):
        powercut.main(["--rounds", "20"])
