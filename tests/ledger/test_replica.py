"""The place of a copy in the stream."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from dragoman.ledger import layout, replica
from dragoman.ledger.base import LedgerError
from dragoman.ledger.layout import Origin
from dragoman.ledger.replica import Place


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    layout.create(tmp_path / "ledger.db")
    opened = layout.connect(tmp_path / "ledger.db")
    yield opened
    opened.close()


def test_a_new_copy_is_before_the_first_message(connection: apsw.Connection) -> None:
    assert replica.prepare(connection, 0) == Place(0, 0)


def test_a_place_is_remembered(connection: apsw.Connection) -> None:
    replica.prepare(connection, 0)
    replica.move_to(connection, Place(7, 2))
    assert replica.prepare(connection, 5) == Place(7, 2)


def test_the_ledger_of_a_single_broker_is_refused(connection: apsw.Connection) -> None:
    with pytest.raises(LedgerError, match="single broker"):
        replica.prepare(connection, 5)


def test_the_message_of_a_record_is_found(connection: apsw.Connection) -> None:
    replica.prepare(connection, 0)
    for first, stream in ((1, 1), (10, 3), (20, 4)):
        replica.note_append(connection, first, stream)
    assert [replica.first_needed(connection, n) for n in (1, 9, 10, 25)] == [1, 1, 3, 4]
    replica.forget_appends(connection, 3)
    assert replica.first_needed(connection, 9) is None


def test_an_emptied_copy_continues_at_its_origin(connection: apsw.Connection) -> None:
    replica.prepare(connection, 0)
    layout.write_checkpoint(connection, "spark", 3)
    replica.empty(connection, Origin(50, 7), b"l" * 16)
    assert layout.read_origin(connection) == Origin(50, 7)
    assert layout.last_link(connection, 49) == b"l" * 16
    assert layout.read_checkpoints(connection) == {}


def test_unusable_files_are_kept_under_another_name(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for suffix in ("", "-wal", ".head"):
        path.with_name(path.name + suffix).write_text(suffix)
    aside = replica.set_aside(path)
    assert not path.exists()
    assert aside.with_name(aside.name + ".head").read_text() == ".head"
