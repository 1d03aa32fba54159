"""Salvage reads what a damaged ledger still has. `test_repair` shows the whole."""

from pathlib import Path

from tests.ledger.test_backup import data as data
from tests.ledger.test_checks import change

from dragoman.ledger.layout import LEDGER_FILE, SEALED_FOLDER
from dragoman.ledger.salvage import salvage


def test_every_position_is_there_and_sealed_records_come_from_their_segments(data: Path) -> None:
    change(data, "DELETE FROM records WHERE seq IN (150, 250)")
    found = {each.seq: each for each in salvage(data / LEDGER_FILE, data / SEALED_FOLDER)}
    assert sorted(found) == list(range(1, 301))
    sealed, lost = found[150], found[250]
    assert sealed.record is not None
    assert (sealed.record.job, sealed.record.at) == ("j150", 150.0)
    assert lost.record is None
    # Without its predecessor a record cannot prove that it is unchanged.
    assert found[251].record is None


def test_records_that_were_acknowledged_and_are_missing_at_the_end_are_lost(data: Path) -> None:
    change(data, "DELETE FROM records WHERE seq > 298")
    found = list(salvage(data / LEDGER_FILE, data / SEALED_FOLDER))
    assert [each.seq for each in found if each.record is None] == [299, 300]
