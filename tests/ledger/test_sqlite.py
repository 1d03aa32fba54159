"""The SQLite ledger: files, full disks, retention, crashes."""

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import apsw
import pytest
from tests.ledger.entries import (
    COUNT,
    entries,
    entry,
    everything,
    fill,
    run,
    seqs,
    varied,
    with_ledger,
)

from dragoman.ledger.base import LedgerError, LedgerFull, LedgerIoError, LedgerMissing
from dragoman.ledger.sqlite import SqliteLedger

EXPECTED = [varied(seq).record for seq in range(1, COUNT + 1)]


# files


def test_a_ledger_opened_again_has_what_it_had(filled: Path) -> None:
    def use(ledger: SqliteLedger) -> None:
        assert everything(ledger) == EXPECTED
        assert ledger.checkpoints() == {"spark": 100}
        assert run(ledger.append([varied(COUNT + 1)])) == COUNT + 1

    with_ledger(filled, use)


def test_a_ledger_closed_in_good_order_leaves_no_log(filled: Path) -> None:
    assert sorted(each.name for each in filled.parent.iterdir()) == ["ledger.db", "ledger.db.head"]


def test_it_is_in_wal_mode_and_fully_synchronous(path: Path) -> None:
    ledger = SqliteLedger(path)
    assert ledger._connection.pragma("journal_mode") == "wal"
    assert ledger._connection.pragma("synchronous") == 2
    run(ledger.close())


def test_two_brokers_never_open_one_ledger(path: Path) -> None:
    ledger = SqliteLedger(path)
    with pytest.raises(LedgerError, match=f"{path}.head is locked"):
        SqliteLedger(path)
    run(ledger.close())
    run(SqliteLedger(path).close())


@pytest.mark.process
def test_an_ordinary_tool_can_read_it_while_it_is_open_and_after(path: Path) -> None:
    def use(ledger: SqliteLedger) -> None:
        fill(ledger, 10)
        # In another process: two copies of SQLite in one process break each other's locks.
        script = (
            "import sqlite3, sys; "
            "print(sqlite3.connect(sys.argv[1]).execute('select max(seq) from records').fetchone())"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
        )
        assert done.stdout == "(10,)\n"

    with_ledger(path, use)


def test_a_tool_that_folds_the_log_into_a_killed_ledger_does_no_harm(killed: Path) -> None:
    connection = apsw.Connection(str(killed))
    connection.pragma("wal_checkpoint(truncate)")
    connection.close()
    assert with_ledger(killed, everything) == EXPECTED


def test_a_creation_cut_short_is_begun_anew(path: Path) -> None:
    path.parent.mkdir()
    (path.parent / "ledger.db.new").write_bytes(b"half a page")
    with_ledger(path, lambda ledger: fill(ledger, 3))
    assert not (path.parent / "ledger.db.new").exists()


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(LedgerError, match=r"ledger\.db: "):
        SqliteLedger(tmp_path / "ledger.db")


def test_a_file_that_is_no_ledger_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE precious (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="not a ledger file"):
        SqliteLedger(path)
    assert path.read_bytes() == before


# full disks


@contextmanager
def no_room(ledger: SqliteLedger) -> Iterator[None]:
    """Limit the file size: SQLite then fails as on a full disk."""
    ledger._connection.pragma("max_page_count", ledger._connection.pragma("page_count") + 3)
    yield
    ledger._connection.pragma("max_page_count", 2**31)


def test_a_full_disk_refuses_the_batch_whole_and_serves_again_when_there_is_room(
    path: Path,
) -> None:
    def use(ledger: SqliteLedger) -> None:
        fill(ledger, 10)
        with no_room(ledger), pytest.raises(LedgerFull, match="nothing was written"):
            run(ledger.append(entries(11, 5000)))
        assert ledger.last_seq == 10
        assert seqs(ledger.read()) == list(range(1, 11))
        assert run(ledger.append([varied(11)])) == 11
        assert ledger.verify() == 11

    with_ledger(path, use)
    with_ledger(path, lambda ledger: fill(ledger, 20))


def test_appends_behind_one_that_found_the_disk_full_fail_with_it(path: Path) -> None:
    async def story(ledger: SqliteLedger) -> list[int | BaseException]:
        batches = [entries(1, 5000), entries(5001, 5001), entries(5002, 5002)]
        with no_room(ledger):
            return await asyncio.gather(*map(ledger.append, batches), return_exceptions=True)

    def use(ledger: SqliteLedger) -> None:
        assert [type(each) for each in run(story(ledger))] == [LedgerFull] * 3
        assert run(ledger.append(entries(1, 3))) == 3

    with_ledger(path, use)


def test_a_checkpoint_and_a_retention_on_a_full_disk_fail_cleanly(path: Path) -> None:
    def use(ledger: SqliteLedger) -> None:
        with no_room(ledger), pytest.raises(LedgerFull):
            ledger.checkpoint("x" * 40_000, 0)
        assert ledger.checkpoints() == {}

    with_ledger(path, use)


def test_an_io_error_refuses_the_batch_whole_and_is_survived(path: Path) -> None:
    """With a file size limit the kernel refuses real writes."""

    def use(ledger: SqliteLedger) -> None:
        fill(ledger, 10)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        log = path.with_name("ledger.db-wal")
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 5000, hard))
        try:
            with pytest.raises(LedgerIoError, match="disk I/O error") as caught:
                run(ledger.append([entry(11, body=b"x" * 300_000)]))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "ulimit -f" in caught.value.hint
        assert "space" not in caught.value.hint
        assert seqs(ledger.read()) == list(range(1, 11))
        assert run(ledger.append([varied(11)])) == 11

    with_ledger(path, use)
    assert with_ledger(path, SqliteLedger.verify) == 11


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_ledger_whose_file_was_moved_takes_no_records_until_it_is_back(
    path: Path, suffix: str
) -> None:
    def use(ledger: SqliteLedger) -> None:
        fill(ledger, 10)
        file = path.with_name(path.name + suffix)
        aside = file.with_name("aside")
        file.rename(aside)
        for check in (
            lambda: run(ledger.append([varied(11)])),
            lambda: ledger.require_writable(is_thorough=False),
        ):
            with pytest.raises(LedgerMissing, match="was deleted or moved") as caught:
                check()
            assert "restore a backup" in caught.value.hint
        aside.rename(file)
        ledger.require_writable()
        assert run(ledger.append([varied(11)])) == 11

    with_ledger(path, use)
    assert with_ledger(path, SqliteLedger.verify) == 11


# retention


def test_removed_records_give_their_space_back(path: Path) -> None:
    async def append(ledger: SqliteLedger) -> None:
        for first in range(1, 2001, 100):
            await ledger.append([entry(n, body=b"x" * 2000) for n in range(first, first + 100)])

    with_ledger(path, lambda ledger: run(append(ledger)))
    before = path.stat().st_size
    with_ledger(path, lambda ledger: run(ledger.retain(keep_records=100)))
    assert path.stat().st_size < before / 8
    assert with_ledger(path, SqliteLedger.verify) == 100


def test_appends_go_on_during_a_retention(path: Path) -> None:
    async def story(ledger: SqliteLedger) -> None:
        retaining = asyncio.create_task(ledger.retain(keep_records=100))
        for seq in range(30_001, 30_051):
            await ledger.append([varied(seq)])
        assert await retaining >= 29_901

    def use(ledger: SqliteLedger) -> None:
        fill(ledger, 30_000, batch=5000)
        run(story(ledger))
        assert ledger.verify() == ledger.last_seq - ledger.first_seq + 1

    with_ledger(path, use)
    with_ledger(path, lambda ledger: fill(ledger, ledger.last_seq + 5))


# crashes

CHILD = """
import asyncio, sys
from dragoman.ledger.base import Entry
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.body import Body
from dragoman.model.record import Record

async def main():
    ledger = SqliteLedger(sys.argv[1])
    tail = ledger.last_seq
    print(tail, flush=True)

    async def append(first, size):
        entries = [
            Entry(Record(seq, 1000.0 + seq, "progress", job=f"j{seq % 10}"), Body("nfp", (b"x",)))
            for seq in range(first, first + size)
        ]
        print(await ledger.append(entries), flush=True)

    while True:
        sizes = [1 + (tail + n) % 7 for n in range(4)]
        appends = []
        for size in sizes:
            appends.append(append(tail + 1, size))
            tail += size
        await asyncio.gather(*appends)

asyncio.run(main())
"""


@pytest.mark.crash
def test_everything_acknowledged_survives_a_kill_at_any_instant(path: Path) -> None:
    random = Random(2024)
    acknowledged = 0
    for _ in range(20):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        # The instant is drawn as a number of acknowledgements; the kill hits any later operation.
        for _ in range(random.randrange(1, 30)):
            acknowledged = max(acknowledged, int(child.stdout.readline()))
        child.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, child.stdout.read().split())])
        child.wait()
        child.stdout.close()
        assert with_ledger(path, lambda ledger: _check(ledger)) >= acknowledged


def _check(ledger: SqliteLedger) -> int:
    assert seqs(ledger.read()) == list(range(1, ledger.last_seq + 1))
    assert ledger.verify() == ledger.last_seq
    return ledger.last_seq
