"""The SQLite file: creation, connections, the check at opening, and migration.

Tables: `records` (the fields of a record, its `chain` checksum, the checksum of its `body` if it
has one, and its `link` in the hash chain), `bodies` (under the same sequence number), `checkpoints`
(named readers), `origin` (one row: the file format, the oldest kept record, and the checksum of the
record before it), `links` (one row: the first record with a link, and the link before it). Files
without links get them from their next record on. Pinned records have tables of their own (`pins`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

import apsw

from dragoman.ledger import pins
from dragoman.ledger.atomic_file import rename_durably
from dragoman.ledger.base import LedgerDamaged, LedgerError
from dragoman.ledger.damage import CorruptData, locate_damage
from dragoman.ledger.rows import FIELDS, NO_LINK, Row, column_definitions, select
from dragoman.model.value import value

#: The file and the folder of segments, in the data folder.
LEDGER_FILE: Final = "ledger.sqlite"
SEALED_FOLDER: Final = "sealed"
FORMAT: Final = 1
_APPLICATION: Final = 0x44524147  #: identifies the file to `file(1)` and to us
#: Job ids are random, so an index over them alone spreads each commit over the whole tree. With the
#: upper bits of the sequence number first, new entries are adjacent and an append costs half as
#: much; a look-up makes one short search per 4,096 records.
CHUNK_BITS: Final = 12
_WAL_PAGES: Final = 2000
_BUSY_MS: Final = 5000

_TABLES: Final = f"""
CREATE TABLE records ({{columns}}, chain INTEGER NOT NULL, body INTEGER, link BLOB) STRICT;
CREATE INDEX by_job ON records (seq >> {CHUNK_BITS}, job) WHERE job != '';
CREATE TABLE bodies (seq INTEGER PRIMARY KEY, blob BLOB NOT NULL) STRICT;
CREATE TABLE checkpoints (name TEXT PRIMARY KEY, seq INTEGER NOT NULL, crc INTEGER NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE TABLE origin (format INTEGER NOT NULL, first INTEGER NOT NULL, chain INTEGER NOT NULL,
    crc INTEGER NOT NULL) STRICT;
"""


_LINKS: Final = (
    "CREATE TABLE IF NOT EXISTS links (first INTEGER NOT NULL, link BLOB NOT NULL) STRICT"
)


_OF_A_JOB: Final = (
    f"FROM chunk CROSS JOIN records AS r INDEXED BY by_job WHERE r.seq >> {CHUNK_BITS} = chunk.n"
    " AND r.job = ?3 AND r.job != ''"
)


def select_of_job(columns: Sequence[str], rest: str) -> str:
    """Return a query for the records `r` of job ?3 in the chunks ?1 to ?2, by the index."""
    chunks = (
        "WITH RECURSIVE chunk (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM chunk WHERE n < ?2)"
    )
    return " ".join((chunks, select(columns, _OF_A_JOB), rest))


class Transaction:
    """A transaction: committed at the end of the block, rolled back on any error."""

    def __init__(self, connection: apsw.Connection, mode: str = "IMMEDIATE") -> None:
        self._connection = connection
        self._mode = mode

    def __enter__(self) -> None:
        self._connection.execute(f"BEGIN {self._mode}")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


class NoSuchRecord(LedgerError):
    """The ledger does not have a record of this number."""


#: A record's number, and the text that identifies it and all before it.
Mark = tuple[int, str]


@value
class Origin:
    """The oldest kept record, and the checksum of the record before it."""

    first: int
    chain: int


@value
class Extent:
    """The range of records in a checked file."""

    origin: Origin
    last: int
    chain: int  #: checksum of the last record; the next one starts from it


def create(path: Path) -> None:
    """Create an empty ledger file atomically."""
    fresh = path.with_name(path.name + ".new")
    for leftover in (fresh, fresh.with_name(fresh.name + "-wal")):
        leftover.unlink(missing_ok=True)  # of an interrupted creation; it held no record
    # Only the owner reads a ledger. SQLite gives its log the mode of this file.
    fresh.touch(0o600)
    connection = apsw.Connection(str(fresh))
    connection.pragma("auto_vacuum", "incremental")
    connection.pragma("application_id", _APPLICATION)
    columns = ", ".join(f"{name} {kind}" for name, kind in column_definitions().items())
    connection.execute(_TABLES.format(columns=columns))
    write_origin(connection, Origin(1, 0))
    upgrade(connection, 0)
    connection.pragma("journal_mode", "wal")
    connection.close()
    rename_durably(fresh, path)


def connect(path: Path) -> apsw.Connection:
    """Open a connection that one thread uses at a time.

    SQLite would take its mutexes several times per column, which makes reading 1.5 times as slow.
    Instead, each connection has one owner or one lock.
    """
    connection = apsw.Connection(
        str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    )
    # Until the file is checked, closing must not merge the log into it: the log is evidence.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.set_busy_timeout(_BUSY_MS)
    connection.pragma("synchronous", "full")
    connection.pragma("fullfsync", "on")
    connection.pragma("cache_size", -16000)
    connection.wal_autocheckpoint(_WAL_PAGES)
    return connection


def check(connection: apsw.Connection, acknowledged: int, trusted: Mark | None = None) -> Extent:
    """Check that the file is sound and that no record is missing.

    The content of rows is checked when they are read. If the record of `trusted` has that mark,
    only the records after it are counted, and the pages are not checked: this takes no longer for
    a long ledger. Raises LedgerDamaged, CorruptData or apsw.Error.
    """
    origin, last = _check_records(connection, acknowledged, trusted)
    if last < acknowledged:
        raise LedgerDamaged(
            f"records {last + 1} to {acknowledged} were acknowledged and are missing",
            last + 1,
            acknowledged,
        )
    if connection.pragma("journal_mode", "wal") != "wal":
        raise CorruptData("the file is not in WAL mode and cannot be switched to it")
    chain = connection.execute("SELECT chain FROM records WHERE seq = ?", (last,)).get
    return Extent(origin, last, origin.chain if chain is None else chain)


def check_all(connection: apsw.Connection) -> None:
    """Check all pages and count all records, on one state of a file that a broker writes to."""
    with Transaction(connection, "DEFERRED"):
        _check_records(connection, 0, None)


def _check_records(
    connection: apsw.Connection, acknowledged: int, trusted: Mark | None
) -> tuple[Origin, int]:
    if connection.pragma("application_id") != _APPLICATION:
        raise CorruptData("this is not a ledger file, or its first page is damaged")
    origin = read_origin(connection)
    read_checkpoints(connection)
    if trusted is not None and (last := _last_after(connection, origin, trusted)) is not None:
        return origin, last
    first, last, count = next(
        connection.execute("SELECT min(seq), max(seq), count(*) FROM records")
    )
    if not count:
        first, last = origin.first, origin.first - 1
    if first != origin.first or count != last - first + 1:
        raise _damaged(
            "records are missing", connection, origin, max(origin.first + count - 1, acknowledged)
        )
    pins.check_totals(connection)
    finding = connection.execute("PRAGMA integrity_check(1)").get
    if finding != "ok":
        raise _damaged(f"SQLite reports: {finding}", connection, origin, last)
    return origin, last


def _last_after(connection: apsw.Connection, origin: Origin, trusted: Mark) -> int | None:
    """Return the last record if all after a trusted one are there; None: check everything."""
    seq, mark = trusted
    try:
        if read_mark(connection, seq) != mark:
            return None
    except LedgerError:
        return None
    first = connection.execute("SELECT min(seq) FROM records").get
    last: int = connection.execute("SELECT max(seq) FROM records").get
    after = connection.execute("SELECT count(*) FROM records WHERE seq > ?", (seq,)).get
    return last if first == origin.first and after == last - seq else None


def read_mark(connection: apsw.Connection, seq: int) -> str:
    """Return the checksum and the link of a record as text: no other ledger has it there."""
    query = "SELECT chain, link FROM records WHERE seq = ?"
    found: list[Row] = connection.execute(query, (seq,)).fetchall()
    if not found:
        raise NoSuchRecord(f"record {seq} is not in this ledger")
    checksum, link = found[0]
    return f"{checksum:08x}.{(link or b'').hex()}"


def upgrade(connection: apsw.Connection, last: int) -> None:
    """Add the columns of newer record versions; old rows get defaults."""
    present = {row[1] for row in connection.execute("PRAGMA table_info(records)")}
    _require_known(present)
    for name, definition in column_definitions().items():
        if name not in present:
            connection.execute(f"ALTER TABLE records ADD COLUMN {name} {definition}")
    if "link" not in present:
        connection.execute("ALTER TABLE records ADD COLUMN link BLOB")
    connection.execute(_LINKS)
    pins.prepare(connection)
    if connection.execute("SELECT count(*) FROM links").get == 0:
        connection.execute("INSERT INTO links VALUES (?, ?)", (last + 1, NO_LINK))


def _require_known(present: set[str]) -> None:
    """Refuse columns of a newer version. A newer version has all of ours, too."""
    unknown = ", ".join(sorted(present - set(FIELDS) - {"chain", "body", "link"}))
    if unknown and not present.issuperset(FIELDS):
        raise CorruptData(f"the definition of `records` is damaged ({unknown})")
    if unknown:
        raise LedgerError(
            f"records have columns unknown to this version ({unknown}): "
            "use the newer version of Dragoman that wrote them"
        )


def read_origin(connection: apsw.Connection) -> Origin:
    """Read the origin; refuse a file of another format."""
    found: list[Row] = connection.execute("SELECT format, first, chain, crc FROM origin").fetchall()
    if len(found) != 1 or found[0][3] != _checksum(*found[0][:3]):
        raise CorruptData("the table `origin` is damaged")
    if found[0][0] != FORMAT:
        raise LedgerError(f"the file has format {found[0][0]}, this version reads format {FORMAT}")
    return Origin(found[0][1], found[0][2])


def write_origin(connection: apsw.Connection, origin: Origin) -> None:
    """Replace the origin."""
    row = (FORMAT, origin.first, origin.chain)
    connection.execute("DELETE FROM origin")
    connection.execute("INSERT INTO origin VALUES (?, ?, ?, ?)", (*row, _checksum(*row)))


def link_before(connection: apsw.Connection) -> bytes | None:
    """Return the link of the record before the oldest one; None if it had none."""
    rows: list[Row] = connection.execute("SELECT first, link FROM links").fetchall()
    (first, link), oldest = rows[0], read_origin(connection).first
    return link if first == oldest else None


def last_link(connection: apsw.Connection, last: int) -> bytes:
    """Return the link that the record after `last` follows."""
    found = connection.execute("SELECT link FROM records WHERE seq = ?", (last,)).get
    if found is None:
        found = connection.execute("SELECT link FROM links").get
    if not isinstance(found, bytes):
        raise CorruptData("the table `links` is damaged")
    return found


def cut_links(connection: apsw.Connection, last: int) -> None:
    """Start the hash chain after `last`, which is about to be removed."""
    found = connection.execute("SELECT link FROM records WHERE seq = ?", (last,)).get
    if found is not None:
        connection.execute("UPDATE links SET first = ?, link = ?", (last + 1, found))


def remove_before(connection: apsw.Connection, origin: Origin) -> None:
    """Remove the records before an origin, and their bodies unless they are pinned."""
    last = origin.first - 1
    cut_links(connection, last)
    connection.execute("DELETE FROM records WHERE seq <= ?", (last,))
    connection.execute(
        "DELETE FROM bodies WHERE seq <= ? AND seq NOT IN (SELECT seq FROM pinned)", (last,)
    )
    write_origin(connection, origin)


def read_checkpoints(connection: apsw.Connection) -> dict[str, int]:
    """Read every checkpoint."""
    found = {}
    for name, seq, crc in connection.execute("SELECT name, seq, crc FROM checkpoints"):
        if crc != _checksum(name, seq):
            raise CorruptData(f"the checkpoint {name!r} is damaged: set it again or remove it")
        found[name] = seq
    return found


def write_checkpoint(connection: apsw.Connection, name: str, seq: int) -> None:
    """Set one checkpoint."""
    connection.execute(
        "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)", (name, seq, _checksum(name, seq))
    )


def move_checkpoint(connection: apsw.Connection, name: str, seq: int | None) -> None:
    """Set one checkpoint; None removes it."""
    if seq is None:
        connection.execute("DELETE FROM checkpoints WHERE name = ?", (name,))
    else:
        write_checkpoint(connection, name, seq)


def _checksum(*values: str | int) -> int:
    return crc32("\n".join(map(str, values)).encode())


def _damaged(what: str, connection: apsw.Connection, origin: Origin, last: int) -> LedgerDamaged:
    first_bad, last_bad = locate_damage(connection, origin.first, last, origin.chain)
    return LedgerDamaged(f"{what}; records {first_bad} to {last_bad}", first_bad, last_bad)
