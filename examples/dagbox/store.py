"""Values by bucket and key, in one SQLite file that writer and readers share."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


class Store:
    """Opens the file anew for each message, so that it can be used from any thread."""

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
        # No transactions but our own: a message is one.
        return sqlite3.connect(self._file, timeout=30.0, isolation_level=None)

    @contextmanager
    def transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        """Begin a transaction; it is committed at the end, or not at all."""
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
    """Fetch a value; None if there is none."""
    rows = connection.execute("SELECT data FROM stored WHERE bucket = ? AND key = ?", (bucket, key))
    found = rows.fetchone()
    return found[0].decode() if found else None
