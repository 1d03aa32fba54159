"""The power cuts find a ledger that does not sync, and no fault in ours."""

from pathlib import Path

import apsw
import pytest
from scripts.volatile_disk import BrokenPromise

from dragoman.ledger import layout
from scripts import fuse_mount, powercut


@pytest.mark.process
def test_nothing_acknowledged_is_missing_after_power_cuts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert powercut.main(["--rounds", "3", "--only", "ledger"]) == 0
    assert "none is missing" in capsys.readouterr().out


@pytest.mark.process
def test_a_ledger_that_does_not_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = layout.connect

    def without_sync(path: Path) -> apsw.Connection:
        connection = connect(path)
        connection.pragma("synchronous", "off")
        return connection

    monkeypatch.setattr(layout, "connect", without_sync)
    with pytest.raises((BrokenPromise, Exception), match=r"acknowledged|damaged|missing|at risk"):
        powercut.main(["--rounds", "20", "--only", "ledger"])


def test_where_fuse_cannot_be_the_broker_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuse_mount, "DEVICE", "/dev/none")
    assert powercut.main(["--rounds", "3", "--only", "broker"]) == 0
    assert "skipped: /dev/none is missing" in capsys.readouterr().out
