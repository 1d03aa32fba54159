"""A restored ledger becomes the first content of an empty stream.

`prepare_restored` marks the file of a backup: it has records, and no place in a stream. The node
with that file publishes its records when it leads, before anything else. All other nodes fill
their copies from the stream, as they always do.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from dragoman.ledger import layout, replica
from dragoman.ledger.base import LedgerError
from dragoman.ledger.rows import FIELDS, Row, select
from dragoman.ledger.stream_codec import Appended, Retained

#: Records in one message.
_BLOCK: Final = 500
_ROWS: Final = select(
    (*FIELDS, "chain", "body", "link"), "FROM records WHERE seq > ? ORDER BY seq LIMIT ?"
)
_BODIES: Final = "SELECT seq, blob FROM bodies WHERE seq BETWEEN ? AND ? ORDER BY seq"
#: What no message follows: a copy that reads the message begins anew with it.
_NOTHING: Final = -1


def prepare_restored(path: Path) -> None:
    """Let a restored ledger be the beginning of a cluster. Raises LedgerError."""
    connection = apsw.Connection(str(path))
    try:
        pinned = (
            connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'pinned'").get
            and connection.execute("SELECT count(*) FROM pinned").get
        )
        if pinned:
            raise LedgerError(
                f"{path}: {pinned} records of old unfinished jobs are kept apart, which a cluster "
                "cannot do; let these jobs end, or start it as a single broker"
            )
        replica.forget_place(connection)
    finally:
        connection.close()


def restored_messages(connection: apsw.Connection, epoch: int) -> Iterator[Retained | Appended]:
    """Yield the content of a copy as messages for an empty stream."""
    origin = layout.read_origin(connection)
    link = layout.last_link(connection, origin.first - 1)
    yield Retained(
        after=_NOTHING,
        epoch=epoch,
        first=origin.first,
        chain=origin.chain,
        link=link,
        checkpoints=layout.read_checkpoints(connection),
    )
    last, chain = origin.first - 1, origin.chain
    while rows := _rows(connection, last):
        first, last = last + 1, rows[-1][0]
        yield Appended(
            after=0,
            epoch=epoch,
            first=first,
            last=last,
            chain=chain,
            link=link,
            rows=rows,
            bodies=_bodies(connection, first, last),
        )
        chain, link = rows[-1][-3], rows[-1][-1]


def _rows(connection: apsw.Connection, after: int) -> list[Row]:
    return list(connection.execute(_ROWS, (after, _BLOCK)).fetchall())


def _bodies(connection: apsw.Connection, first: int, last: int) -> list[Row]:
    return list(connection.execute(_BODIES, (first, last)).fetchall())
