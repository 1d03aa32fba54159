"""Values by bucket and key, in one SQLite file that writer and readers share."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


class Store:
    """Opens the file for each message, so that any thread can use it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "dagbox.sqlite"
        with closing(self._open()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS stored"
                " (bucket TEXT, key TEXT, data BLOB, PRIMARY KEY (bucket, key)) WITHOUT ROWID"
            )

    def _open(self) -> sqlite3.Connection:
        # No implicit transactions: each message is one explicit transaction.
        return sqlite3.connect(self._file, timeout=30.0, isolation_level=None)

    @contextmanager
    def transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        """Begin a transaction; commit it at the end, or roll it back on an error."""
        with closing(self._open()) as connection:
            connection.execute(f"BEGIN {kind}")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


def put(connection: sqlite3.Connection, bucket: str, key: str, data: str) -> None:
    """Store a value."""
    row = (bucket, key, data.encode())
    connection.execute("INSERT INTO stored VALUES (?, ?, ?)", row)


def get(connection: sqlite3.Connection, bucket: str, key: str) -> str | None:
    """Return a value; None if the key is unknown."""
    rows = connection.execute("SELECT data FROM stored WHERE bucket = ? AND key = ?", (bucket, key))
    found = rows.fetchone()
    return found[0].decode() if found else None
