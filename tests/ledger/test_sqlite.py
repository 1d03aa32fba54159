"""The SQLite ledger's own promises: files, damage, full disks, age, crashes."""

import asyncio
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import apsw
import pytest
from tests.ledger.entries import entries, entry, fill, run, seqs, varied, with_ledger

from dragoman.ledger.base import LedgerDamaged, LedgerError, LedgerFull
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Record

COUNT = 600


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ledger.db"


@pytest.fixture
def filled(path: Path) -> Path:
    """A ledger that was closed in good order."""

    def use(ledger: SqliteLedger) -> None:
        fill(ledger, COUNT)
        ledger.checkpoint("spark", 100)

    with_ledger(path, use)
    return path


@pytest.fixture
def killed(path: Path, tmp_path: Path) -> Path:
    """A copy of a ledger's files as a kill leaves them: everything is still in the log."""
    ledger = SqliteLedger(path)
    fill(ledger, COUNT, batch=20)
    copy = tmp_path / "killed"
    shutil.copytree(path.parent, copy)
    run(ledger.close())
    (copy / "ledger.db-shm").unlink()
    return copy / "ledger.db"


def everything(ledger: SqliteLedger) -> list[Record]:
    assert ledger.verify() == len(list(ledger.read()))
    return list(ledger.read())


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


def test_an_ordinary_tool_can_read_it_while_it_is_open_and_after(path: Path) -> None:
    def use(ledger: SqliteLedger) -> None:
        fill(ledger, 10)
        # Another process: two copies of SQLite in one would undo each other's locks.
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


# damage


def judge(path: Path, expected: list[Record]) -> str:
    """Open and read everything: the answer is what was written, or a refusal that says where."""
    before = path.read_bytes()
    try:
        found = with_ledger(path, _all_that_can_be_asked)
    except LedgerDamaged as damage:
        says_where = 1 <= damage.first <= damage.last <= COUNT and str(path) in str(damage)
        is_untouched = path.read_bytes() == before
        return "damaged" if says_where and is_untouched else f"damaged and: {damage}"
    assert found == (expected, {n: _history(expected, n) for n in range(10)}, {"spark": 100})
    return "whole"


def _all_that_can_be_asked(
    ledger: SqliteLedger,
) -> tuple[list[Record], dict[int, list[Record]], dict[str, int]]:
    records = everything(ledger)
    bodies = [ledger.body(each.seq) for each in records]
    assert bodies == [varied(each.seq).body for each in records]
    return records, {n: ledger.history(f"j{n}") for n in range(10)}, ledger.checkpoints()


def _history(records: list[Record], job: int) -> list[Record]:
    return [each for each in records if each.job == f"j{job}"]


def test_a_changed_byte_anywhere_is_harmless_or_found(filled: Path) -> None:
    whole = filled.read_bytes()
    random = Random(11)
    places = [*range(0, 100, 7), *(random.randrange(len(whole)) for _ in range(140))]
    verdicts = []
    for place in places:
        flipped = whole[place] ^ (1 << random.randrange(8))
        filled.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
        verdicts.append(judge(filled, EXPECTED))
    assert set(verdicts) <= {"whole", "damaged"}
    assert verdicts.count("damaged") > len(places) // 2


def test_a_page_of_noise_is_found(filled: Path) -> None:
    whole = filled.read_bytes()
    random = Random(12)
    for start in range(0, len(whole), 4096):
        noise = random.randbytes(4096)
        filled.write_bytes(whole[:start] + noise + whole[start + 4096 :])
        assert judge(filled, EXPECTED) == "damaged"


def test_a_file_cut_short_is_found(filled: Path) -> None:
    whole = filled.read_bytes()
    random = Random(13)
    lengths = {random.randrange(len(whole)) for _ in range(40)}
    lengths |= set(range(0, len(whole), 4096))
    for length in sorted(lengths):
        filled.write_bytes(whole[:length])
        assert judge(filled, EXPECTED) == "damaged"


def test_a_missing_file_is_found(filled: Path) -> None:
    filled.unlink()
    with pytest.raises(LedgerDamaged, match="the file is gone") as caught:
        SqliteLedger(filled)
    assert (caught.value.first, caught.value.last) == (1, COUNT)
    assert not filled.exists()


def test_a_changed_byte_in_the_log_is_found_and_the_log_is_kept(killed: Path) -> None:
    log = killed.with_name("ledger.db-wal")
    whole, table = log.read_bytes(), killed.read_bytes()
    random = Random(14)
    for _ in range(80):
        place = random.randrange(len(whole))
        log.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        changed = log.read_bytes()
        with pytest.raises(LedgerDamaged, match="acknowledged and are gone") as caught:
            SqliteLedger(killed)
        assert 1 <= caught.value.first <= caught.value.last == COUNT
        assert (log.read_bytes(), killed.read_bytes()) == (changed, table)


@pytest.mark.parametrize("fraction", [0, 1, 5, 9])
def test_a_log_cut_short_is_found(killed: Path, fraction: int) -> None:
    log = killed.with_name("ledger.db-wal")
    log.write_bytes(log.read_bytes()[: log.stat().st_size * fraction // 10])
    with pytest.raises(LedgerDamaged, match=f"to {COUNT} were acknowledged and are gone") as caught:
        SqliteLedger(killed)
    assert caught.value.last == COUNT


def test_a_log_that_is_gone_is_found(killed: Path) -> None:
    killed.with_name("ledger.db-wal").unlink()
    with pytest.raises(LedgerDamaged) as caught:
        SqliteLedger(killed)
    assert (caught.value.first, caught.value.last) == (1, COUNT)


def tamper(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "first", "last"),
    [
        ("DELETE FROM records WHERE seq = 1", 1, 2),
        ("DELETE FROM records WHERE seq = 300", 300, 301),
        ("DELETE FROM records WHERE seq BETWEEN 100 AND 400", 100, 401),
        (f"DELETE FROM records WHERE seq = {COUNT}", COUNT, COUNT),
        ("DELETE FROM records", 1, COUNT),
        ("UPDATE records SET seq = 5000 WHERE seq = 10", 10, 11),
    ],
)
def test_a_row_removed_behind_its_back_is_found_when_opening(
    filled: Path, statement: str, first: int, last: int
) -> None:
    tamper(filled, statement)
    with pytest.raises(LedgerDamaged) as caught:
        SqliteLedger(filled)
    assert caught.value.first == first
    assert caught.value.last >= last


@pytest.mark.parametrize(
    ("statement", "first", "last"),
    [
        ("UPDATE records SET state = 'succeeded' WHERE seq = 250", 250, 250),
        ("UPDATE records SET chain = chain + 1 WHERE seq = 250", 250, 251),
        ("DELETE FROM bodies WHERE seq = 300", 300, 300),
        ("UPDATE bodies SET blob = x'00' WHERE seq IN (30, 60)", 30, 60),
        ("INSERT INTO bodies VALUES (31, x'00')", 31, 31),
    ],
)
def test_what_was_changed_behind_its_back_is_found_when_reading(
    filled: Path, statement: str, first: int, last: int
) -> None:
    tamper(filled, statement)

    def use(ledger: SqliteLedger) -> None:
        with pytest.raises(LedgerDamaged, match=f"records {first} to {last} ") as caught:
            ledger.verify()
        assert (caught.value.first, caught.value.last) == (first, last)
        assert seqs(ledger.read(limit=20)) == list(range(1, 21))

    with_ledger(filled, use)


def test_a_damaged_record_is_not_in_a_history_and_not_beside_a_body(filled: Path) -> None:
    tamper(filled, "UPDATE records SET detail = '' WHERE seq = 250")
    tamper(filled, "UPDATE bodies SET blob = x'00' WHERE seq = 300")

    def use(ledger: SqliteLedger) -> None:
        with pytest.raises(LedgerDamaged):
            ledger.history("j0")
        with pytest.raises(LedgerDamaged):
            ledger.body(300)
        assert len(ledger.history("j1")) == COUNT // 10

    with_ledger(filled, use)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE origin SET first = 2",
        "DELETE FROM origin",
        "UPDATE checkpoints SET seq = 500",
        "DROP TABLE bodies",
        "PRAGMA application_id = 5",
    ],
)
def test_damage_beside_the_records_is_found_when_opening(filled: Path, statement: str) -> None:
    tamper(filled, statement)
    with pytest.raises(LedgerDamaged, match=str(filled)):
        with_ledger(filled, SqliteLedger.verify)


# full disks


@contextmanager
def no_room(ledger: SqliteLedger) -> Iterator[None]:
    """Let the file grow no further: SQLite then answers as on a full disk."""
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
    """A limit on file sizes makes the kernel refuse real writes."""

    def use(ledger: SqliteLedger) -> None:
        fill(ledger, 10)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        log = path.with_name("ledger.db-wal")
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 5000, hard))
        try:
            with pytest.raises(LedgerFull, match="disk I/O error"):
                run(ledger.append([entry(11, body=b"x" * 300_000)]))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert seqs(ledger.read()) == list(range(1, 11))
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
        # The instant is drawn as a number of acknowledgements; the kill then falls anywhere in
        # what the child does next.
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
