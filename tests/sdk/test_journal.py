"""The journal: what was appended is there after a crash."""

from pathlib import Path

import pytest

from dragoman.dialects.ncl.models import BID_ACCEPTED
from dragoman.dialects.ncl.store import NodeStore, StoredExecution
from dragoman.sdk.journal import Journal, open_store


@pytest.mark.parametrize("is_synced", [False, True])
def test_lines_are_there_without_a_close(tmp_path: Path, is_synced: bool) -> None:
    journal = Journal(tmp_path / "deep" / "journal", is_synced=is_synced)
    journal.append(b"one")
    journal.append(b"two")
    again = Journal(tmp_path / "deep" / "journal")
    assert again.read() == [b"one", b"two"]
    journal.close()
    again.close()


def test_a_replacement_is_whole_and_goes_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.append(b"old")
    journal.replace([b"new"])
    journal.append(b"more")
    assert journal.read() == [b"new", b"more"]
    assert [p.name for p in tmp_path.iterdir()] == ["journal"]
    journal.close()


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    store = NodeStore(journal.append)
    store.add(StoredExecution("e1", "j1", "batch", BID_ACCEPTED))
    journal.close()
    with (tmp_path / "journal").open("ab") as file:
        file.write(b'{"k":"new","id":"e2"')
    torn = Journal(tmp_path / "journal")
    again = NodeStore()
    assert again.load(torn.read()) == 1
    assert list(again.executions) == ["e1"]
    torn.close()


def test_a_store_is_there_again_and_short(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    store = open_store(path, 10)
    stored = StoredExecution("e1", "j1", "batch", BID_ACCEPTED)
    store.add(stored)
    for _ in range(5):
        store.set_state(stored, BID_ACCEPTED)
    again = open_store(path, 10)
    assert list(again.executions) == ["e1"]
    assert again.seq == store.seq
    assert len((tmp_path / "store").read_bytes().splitlines()) == 2


def test_a_store_that_grows_long_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.sdk.journal.COMPACT_AFTER", 10)
    path = tmp_path / "store"
    store = open_store(str(path), 10, is_synced=True)
    stored = StoredExecution("e1", "j1", "batch", BID_ACCEPTED)
    store.add(stored)
    for _ in range(95):
        store.set_state(stored, BID_ACCEPTED)
    assert len(path.read_bytes().splitlines()) < 20
    again = open_store(str(path), 10)
    assert (again.seq, list(again.executions)) == (store.seq, ["e1"])
