"""The tables by which a copy of the replicated ledger knows its place in the stream.

`replica` (one row): the last applied message and its epoch. `appends`: which message contains which
records, so that the stream can be purged behind retention. They are written in the transaction
that applies a message: no message is applied twice or left out, whenever the process ends.
"""

from pathlib import Path
from typing import Final

import apsw

from dragoman.ledger import layout
from dragoman.ledger.base import LedgerError
from dragoman.ledger.layout import Origin
from dragoman.ledger.rows import Row
from dragoman.model.value import value

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS replica (stream INTEGER NOT NULL, epoch INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS appends (first INTEGER PRIMARY KEY, stream INTEGER NOT NULL) STRICT;
"""
#: The files of a copy, beside the ledger's own.
_SUFFIXES: Final = ("", "-wal", "-shm", ".head")


@value
class Place:
    """The last applied message of the stream, and its epoch."""

    stream: int = 0
    epoch: int = 0


def prepare(connection: apsw.Connection, last: int) -> Place:
    """Create the tables if they are missing; return the place.

    Raises LedgerError if the file is the ledger of a broker without a cluster.
    """
    # The stream is the truth, so the copy need not survive a power failure.
    connection.pragma("synchronous", "off")
    connection.execute(_TABLES)
    found: list[Row] = connection.execute("SELECT stream, epoch FROM replica").fetchall()
    if found:
        return Place(*found[0])
    if last:
        raise LedgerError(
            f"the data folder has the ledger of a single broker ({last} records); a node of a"
            " cluster starts with a folder of its own"
        )
    connection.execute("INSERT INTO replica VALUES (0, 0)")
    return Place()


def forget_place(connection: apsw.Connection) -> None:
    """Let a ledger have no place in any stream; its next epoch is still higher than its last."""
    connection.execute(_TABLES)
    epoch = connection.execute("SELECT max(epoch) FROM replica").get or 0
    with connection:
        connection.execute("DELETE FROM replica")
        connection.execute("DELETE FROM appends")
        connection.execute("INSERT INTO replica VALUES (0, ?)", (epoch,))


def move_to(connection: apsw.Connection, place: Place) -> None:
    """Store the place."""
    connection.execute("UPDATE replica SET stream = ?, epoch = ?", (place.stream, place.epoch))


def note_append(connection: apsw.Connection, first: int, stream: int) -> None:
    """Store which message begins with a record."""
    connection.execute("INSERT INTO appends VALUES (?, ?)", (first, stream))


def first_needed(connection: apsw.Connection, record: int) -> int | None:
    """Return the message that contains a record; None: no message does."""
    query = "SELECT stream FROM appends WHERE first <= ? ORDER BY first DESC LIMIT 1"
    found: int | None = connection.execute(query, (record,)).get
    return found


def forget_appends(connection: apsw.Connection, before: int) -> None:
    """Forget the messages before a sequence."""
    connection.execute("DELETE FROM appends WHERE stream < ?", (before,))


def empty(connection: apsw.Connection, origin: Origin, link: bytes) -> None:
    """Remove everything; the next record is the one of the origin, after `link`."""
    for table in ("records", "bodies", "checkpoints", "appends"):
        connection.execute(" ".join(("DELETE FROM", table)))
    connection.execute("UPDATE links SET first = ?, link = ?", (origin.first, link))
    layout.write_origin(connection, origin)


def set_aside(path: Path) -> Path:
    """Rename the files of a copy that cannot be used; return the new name of the ledger."""
    aside = path.with_name(path.name + ".unusable")
    for suffix in _SUFFIXES:
        old = path.with_name(path.name + suffix)
        if old.exists():
            old.replace(aside.with_name(aside.name + suffix))
    return aside
