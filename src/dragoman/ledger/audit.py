"""The audit: proves that every record of a ledger is in place and unchanged.

Reads only, and needs no lock, so it works beside a running broker. Checksums detect accidents;
links detect tampering. A person who can write the file and has the key (if there is one) can
compute all links again. So store the head elsewhere, and pass it to the next audit.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final
from zlib import crc32

import apsw

from dragoman.ledger import layout, pins
from dragoman.ledger.base import LedgerError
from dragoman.ledger.damage import CorruptData
from dragoman.ledger.head import read_head
from dragoman.ledger.layout import Transaction
from dragoman.ledger.rows import DEFAULTS, FIELDS, Row, chain, encoded, linker, select
from dragoman.model.value import value

_BLOCK: Final = 1000
#: Findings listed at most.
MAX_FINDINGS: Final = 100
_DIGEST, _NBYTES = FIELDS.index("digest"), FIELDS.index("nbytes")
_BODY_DIGEST: Final = 16
_SHORTEST_KEY: Final = 16


@value
class AuditFinding:
    """One record, and what is wrong with it."""

    seq: int
    what: str


@value
class AuditReport:
    """The result of an audit."""

    first: int  #: the oldest record
    last: int  #: the newest
    #: The link of the newest record, in hex; it covers all records.
    head: str
    #: Records written before links existed; only their checksums were checked.
    unlinked: int
    findings: tuple[AuditFinding, ...]

    @property
    def is_sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings


def audit(path: Path, key: bytes = b"", known: Mapping[int, str] | None = None) -> AuditReport:
    """Check a ledger from its oldest record to its newest.

    Args:
        path: the ledger's file.
        key: the key of its hash chain.
        known: links by record, from earlier audits or anchors, stored in a safe place.

    """
    if not path.is_file():
        raise LedgerError(f"{path}: no such ledger file")
    acknowledged = read_head(path.with_name(path.name + ".head"))
    try:
        connection = layout.connect(path)
    except apsw.Error as error:
        raise LedgerError(f"{path}: {error}") from None
    try:
        return _Auditor(connection, key, known).run(acknowledged)
    except (apsw.Error, ValueError, TypeError, IndexError, CorruptData) as error:
        raise LedgerError(f"{path}: not a readable ledger: {error}") from None
    finally:
        connection.close()


def read_key(path: Path | None) -> bytes:
    """Read the key of a hash chain; without a file the chain has no key."""
    if path is None:
        return b""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise LedgerError(f"{path}: cannot read the audit key: {error.strerror}") from None
    if len(secret) < _SHORTEST_KEY:
        raise LedgerError(f"{path}: the audit key has less than {_SHORTEST_KEY} bytes")
    return blake2b(secret, digest_size=32).digest()


class _Auditor:
    def __init__(
        self, connection: apsw.Connection, key: bytes, known: Mapping[int, str] | None
    ) -> None:
        self._connection = connection
        self._make_link = linker(key)
        self._known = known or {}
        self._findings: list[AuditFinding] = []
        self._unlinked = 0
        present = {row[1] for row in connection.execute("PRAGMA table_info(records)")}
        columns = [name if name in present else DEFAULTS[name] for name in FIELDS]
        links = "records.link" if "link" in present else "NULL"
        self._query = select(
            (*columns, "chain", "body", links, "blob"),
            "FROM records LEFT JOIN bodies USING (seq) WHERE seq > ? ORDER BY seq LIMIT ?",
        )
        self._has_links = "link" in present

    def run(self, acknowledged: int) -> AuditReport:
        origin = layout.read_origin(self._connection)
        first, before = self._where_links_begin(origin.first)
        expected, checksum, newest = origin.first, origin.chain, before
        for row, stored, crc, found, blob in self._rows(origin.first - 1):
            seq = row[0]
            if seq != expected and self._was_removed_by_retention(expected):
                moved = layout.read_origin(self._connection)
                checksum, (first, newest) = moved.chain, self._where_links_begin(moved.first)
            elif seq != expected:
                what = f"missing, with all before {seq}" if seq - expected > 1 else "missing"
                self._find(expected, what)
            if chain(row, checksum) != stored:
                self._find(seq, "does not match its checksum")
            checksum = stored
            if seq >= first:
                newest = self._check_link(row, found, newest)
            else:
                self._unlinked += 1
            self._check_body(row, crc, blob)
            expected = seq + 1
        self._check_pins()
        last = expected - 1
        if last < acknowledged:
            self._find(last + 1, f"missing at the end, with all up to {acknowledged}")
        if (newest_known := max(self._known, default=0)) > last:
            self._find(newest_known, "existed at an earlier audit and is missing")
        found = tuple(self._findings)
        return AuditReport(origin.first, last, newest.hex(), self._unlinked, found)

    def _check_pins(self) -> None:
        """Check the pinned records, each for itself."""
        with Transaction(self._connection, "DEFERRED"):
            try:
                pins.check_totals(self._connection)
            except CorruptData as error:
                self._find(0, f"is not one of these: {error}")
            for pin in pins.all_pins(self._connection):
                self._check_pin(pin)

    def _check_pin(self, pin: pins.Pin) -> None:
        try:
            row = pin.row()
        except CorruptData:
            self._find(pin.seq, "is pinned and does not match its checksum")
            return
        if pin.link is not None and pin.before_link is not None:
            if self._make_link(pin.raw, pin.before_link) != pin.link:
                self._find(pin.seq, "is pinned and does not follow from the record before it")
            if self._known.get(pin.seq, pin.link.hex()) != pin.link.hex():
                self._find(pin.seq, "differs from an earlier audit")
        query = "SELECT blob FROM bodies WHERE seq = ?"
        self._check_body(row, pin.body, self._connection.execute(query, (pin.seq,)).get)

    def _was_removed_by_retention(self, seq: int) -> bool:
        """Tell whether retention removed a record during the audit."""
        return layout.read_origin(self._connection).first > seq

    def _where_links_begin(self, first: int) -> tuple[int, bytes]:
        if not self._has_links:
            return 2**63, b""
        rows: list[Row] = self._connection.execute("SELECT first, link FROM links").fetchall()
        return max(rows[0][0], first), rows[0][1]

    def _rows(self, after: int) -> Iterator[tuple[Row, int, int | None, object, object]]:
        """Yield every record, in short reads: a long read would delay a running broker."""
        while True:
            with Transaction(self._connection, "DEFERRED"):
                rows: list[Row] = self._connection.execute(self._query, (after, _BLOCK)).fetchall()
            if not rows:
                return
            for row in rows:
                yield row[:-4], row[-4], row[-3], row[-2], row[-1]
            after = rows[-1][0]

    def _check_link(self, row: Row, found: object, previous: bytes) -> bytes:
        made = self._make_link(encoded(row), previous)
        if found != made:
            self._find(row[0], "does not follow from the records before it")
        if self._known.get(row[0], made.hex()) != made.hex():
            self._find(row[0], "differs from an earlier audit")
        # Continue from the stored link, so that only the changed record is reported.
        return found if isinstance(found, bytes) else made

    def _check_body(self, row: Row, crc: int | None, blob: object) -> None:
        if crc is None and blob is None:
            if row[_NBYTES]:
                self._find(row[0], "has lost its body")
            return
        if not isinstance(blob, bytes) or crc != crc32(blob):
            self._find(row[0], "has a body that does not match its checksum")
        elif row[_DIGEST] and blake2b(blob, digest_size=_BODY_DIGEST).hexdigest() != row[_DIGEST]:
            self._find(row[0], "has a body that does not match its digest")

    def _find(self, seq: int, what: str) -> None:
        if len(self._findings) < MAX_FINDINGS:
            self._findings.append(AuditFinding(seq, what))
