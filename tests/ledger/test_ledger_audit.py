"""An audit reports every record that was changed, removed or swapped, and no other."""

from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import apsw
import pytest
from tests.ledger.entries import entry, fill, run, varied, with_ledger

from dragoman.ledger import audit as module
from dragoman.ledger.audit import audit, read_key
from dragoman.ledger.base import Entry, LedgerError
from dragoman.ledger.head import read_head
from dragoman.ledger.rows import FIELDS, NO_LINK, chain, encoded, linker
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.body import Body, pack

COUNT = 40
COLUMNS = ", ".join(FIELDS)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "ledger.sqlite"
    with_ledger(path, lambda ledger: fill(ledger, COUNT, batch=7))
    return path


@pytest.fixture
def ledger(original: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    copy = tmp_path / "ledger.sqlite"
    for name in ("ledger.sqlite", "ledger.sqlite.head"):
        (tmp_path / name).write_bytes(original.with_name(name).read_bytes())
    return copy


def spoil(path: Path, *statements: str, careful: bool = False, key: bytes | None = None) -> None:
    """Change the file without the ledger.

    `careful` also corrects the checksums; with `key`, the links as well.
    """
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    if careful:
        checksum, newest = 0, NO_LINK
        for row in connection.execute(f"SELECT {COLUMNS} FROM records ORDER BY seq").fetchall():
            checksum = chain(row, checksum)
            connection.execute("UPDATE records SET chain = ? WHERE seq = ?", (checksum, row[0]))
            if key is not None:
                newest = linker(key)(encoded(row), newest)
                connection.execute("UPDATE records SET link = ? WHERE seq = ?", (newest, row[0]))
    connection.close()


def changed(seq: int) -> list[str]:
    return [f"UPDATE records SET detail = detail || '!' WHERE seq = {seq}"]


def removed(seq: int) -> list[str]:
    return [f"DELETE FROM {table} WHERE seq = {seq}" for table in ("records", "bodies")]


def closed_up(seq: int) -> list[str]:
    """Remove a record and renumber those after it, so that no number is missing."""
    moves = [
        f"UPDATE {table} SET seq = {n - 1} WHERE seq = {n}"
        for n in range(seq + 1, COUNT + 1)
        for table in ("records", "bodies")
    ]
    return [*removed(seq), *moves]


def swapped(seq: int) -> list[str]:
    other = seq % COUNT + 1
    statements = []
    for table in ("records", "bodies"):
        for old, new in ((seq, 0), (other, seq), (0, other)):
            statements.append(f"UPDATE {table} SET seq = {new} WHERE seq = {old}")
    return statements


def test_nothing_is_found_where_nothing_is_wrong(original: Path) -> None:
    verdict = audit(original)
    assert verdict.is_sound
    assert (verdict.first, verdict.last, verdict.unlinked) == (1, COUNT, 0)
    assert audit(original, known={COUNT: verdict.head}).is_sound
    connection = apsw.Connection(str(original))
    half: bytes = connection.execute("SELECT link FROM records WHERE seq = 20").get
    connection.close()
    assert audit(original, known={20: half.hex()}).is_sound


HANDS = [changed, removed, closed_up, swapped]


@pytest.mark.parametrize("careful", [False, True], ids=["plain", "careful"])
@pytest.mark.parametrize("hand", HANDS, ids=[hand.__name__ for hand in HANDS])
@pytest.mark.parametrize("seq", range(1, COUNT + 1))
def test_any_single_record_that_was_touched_is_found(
    ledger: Path, hand: Callable[[int], list[str]], seq: int, careful: bool
) -> None:
    spoil(ledger, *hand(seq), careful=careful)
    findings = audit(ledger).findings
    assert findings
    assert min(f.seq for f in findings) in (seq, 1 if hand is swapped and seq == COUNT else seq)


@pytest.mark.parametrize("seq", [3, 21, 39])
def test_a_body_that_was_changed_is_found_even_with_its_checksum(ledger: Path, seq: int) -> None:
    blob = pack(Body("nfp", (b"another body",)))
    connection = apsw.Connection(str(ledger))
    connection.execute("UPDATE bodies SET blob = ? WHERE seq = ?", (blob, seq))
    connection.close()
    assert audit(ledger).findings[0].seq == seq
    connection = apsw.Connection(str(ledger))
    connection.execute("UPDATE records SET body = ? WHERE seq = ?", (crc32(blob), seq))
    connection.execute("DELETE FROM bodies WHERE seq = ?", (seq + 3 if seq < 39 else 3,))
    connection.close()
    assert "does not match its checksum" in audit(ledger).findings[-1].what


def test_the_digest_in_a_record_binds_its_body(tmp_path: Path) -> None:
    body = Body("nfp", (b"true",))
    told = entry(1, body=b"true", digest=body.digest())
    path = tmp_path / "ledger.sqlite"
    with_ledger(path, lambda ledger: run(ledger.append([Entry(told.record, body)])))
    assert audit(path).is_sound
    other = pack(Body("nfp", (b"lies",)))
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE bodies SET blob = ?", (other,))
    connection.execute("UPDATE records SET body = ?", (crc32(other),))
    connection.close()
    assert [f.what for f in audit(path).findings] == ["has a body that does not match its digest"]
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM bodies")
    connection.execute("UPDATE records SET body = NULL")
    connection.close()
    assert [f.what for f in audit(path).findings] == ["has lost its body"]


def test_who_makes_all_links_anew_is_found_by_the_head_that_was_kept(ledger: Path) -> None:
    head = audit(ledger).head
    spoil(ledger, *changed(5), careful=True, key=b"")
    assert audit(ledger).is_sound, "a plain chain alone cannot tell"
    (finding,) = audit(ledger, known={COUNT: head}).findings
    assert "earlier audit" in finding.what
    (gone,) = audit(ledger, known={COUNT + 1: head}).findings
    assert gone.what == "existed at an earlier audit and is missing"


def test_without_the_key_nobody_makes_links(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"

    async def write() -> None:
        ledger = SqliteLedger(path, key=b"secret")
        await ledger.append([varied(seq) for seq in range(1, 11)])
        await ledger.close()

    run(write())
    assert audit(path, key=b"secret").is_sound
    assert len(audit(path, key=b"other").findings) == 10
    spoil(path, *changed(5), careful=True, key=b"guess")
    assert not audit(path, key=b"secret").is_sound


def test_the_chain_goes_on_after_the_ledger_was_opened_again(ledger: Path) -> None:
    with_ledger(ledger, lambda opened: fill(opened, COUNT + 10))
    verdict = audit(ledger)
    assert (verdict.is_sound, verdict.last) == (True, COUNT + 10)


def test_what_retention_removes_in_good_order_is_not_missed(ledger: Path) -> None:
    def cut(opened: SqliteLedger) -> None:
        run(opened.retain(keep_records=15))
        fill(opened, COUNT + 5)

    with_ledger(ledger, cut)
    verdict = audit(ledger)
    assert verdict.is_sound
    assert (verdict.first, verdict.last) == (COUNT - 14, COUNT + 5)
    spoil(ledger, *changed(COUNT - 14))
    assert audit(ledger).findings[0].seq == COUNT - 14


def test_a_ledger_of_before_there_were_links_is_readable_and_gets_them(ledger: Path) -> None:
    connection = apsw.Connection(str(ledger))
    connection.execute("DROP TABLE links")
    connection.execute("ALTER TABLE records DROP COLUMN link")
    connection.close()
    old = audit(ledger)
    assert (old.is_sound, old.unlinked) == (True, COUNT)
    with_ledger(ledger, lambda opened: fill(opened, COUNT + 10))
    both = audit(ledger)
    assert (both.is_sound, both.unlinked) == (True, COUNT)
    spoil(ledger, *changed(COUNT + 3), careful=True)
    assert audit(ledger).findings[0].seq == COUNT + 3
    with_ledger(ledger, lambda opened: run(opened.retain(keep_records=15)))
    assert audit(ledger).unlinked == 5


def test_links_may_be_missing_only_where_there_never_were_any(ledger: Path) -> None:
    spoil(ledger, "UPDATE records SET link = NULL WHERE seq = 7")
    assert audit(ledger).findings[0].seq == 7


def test_an_audit_needs_no_lock_and_a_ledger_that_grows_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"

    async def beside() -> None:
        ledger = SqliteLedger(path)
        await ledger.append([varied(seq) for seq in range(1, 11)])
        assert audit(path).last == 10
        await ledger.append([varied(seq) for seq in range(11, 21)])
        assert audit(path).is_sound
        await ledger.close()

    run(beside())


def test_what_is_no_ledger_is_told(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no such ledger file"):
        audit(tmp_path / "nothing")
    other = tmp_path / "other"
    other.write_bytes(b"not a database at all" * 100)
    with pytest.raises(LedgerError, match="other"):
        audit(other)


def test_not_more_is_listed_than_anybody_reads(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FINDINGS", 3)
    spoil(ledger, "UPDATE records SET detail = 'x'")
    assert len(audit(ledger).findings) == 3


def test_the_head_file_can_be_read_without_its_lock(original: Path, tmp_path: Path) -> None:
    assert read_head(original.with_name("ledger.sqlite.head")) == COUNT
    assert read_head(tmp_path / "none") == 0
    (tmp_path / "bad").write_bytes(b"x" * 20)
    assert read_head(tmp_path / "bad") == 0


def test_a_key_is_read_from_a_file_and_a_short_one_is_none(tmp_path: Path) -> None:
    assert read_key(None) == b""
    path = tmp_path / "key"
    path.write_bytes(b"0123456789abcdef\n")
    assert read_key(path) == read_key(path)
    assert b"0123456789abcdef" not in read_key(path)
    path.write_bytes(b"short")
    with pytest.raises(LedgerError, match="less than 16 bytes"):
        read_key(path)
    with pytest.raises(LedgerError, match="cannot read the audit key"):
        read_key(tmp_path / "none")
