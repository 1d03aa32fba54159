"""Ledger files: one after an orderly close, one as a kill leaves it."""

import shutil
from pathlib import Path

import pytest
from tests.ledger.entries import COUNT, fill, run, with_ledger

from dragoman.ledger.sqlite import SqliteLedger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ledger.db"


@pytest.fixture
def filled(path: Path) -> Path:
    """A ledger after an orderly close."""

    def use(ledger: SqliteLedger) -> None:
        fill(ledger, COUNT)
        ledger.checkpoint("spark", 100)

    with_ledger(path, use)
    return path


@pytest.fixture
def killed(path: Path, tmp_path: Path) -> Path:
    """A copy of a ledger's files after a kill: everything is still in the log."""
    ledger = SqliteLedger(path)
    fill(ledger, COUNT, batch=20)
    copy = tmp_path / "killed"
    shutil.copytree(path.parent, copy)
    run(ledger.close())
    (copy / "ledger.db-shm").unlink()
    return copy / "ledger.db"
