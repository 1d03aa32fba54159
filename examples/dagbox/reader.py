"""The datastore reader: values come out, with those they are related to if that is asked for."""

import sqlite3
from pathlib import Path
from typing import Any

from examples.dagbox.parts import BadPart, checked, error, offer, options, read, write
from examples.dagbox.store import Store, get

from dragoman import Worker

SERVICE = "datastore reader"
#: Relations of relations of relations; nobody means more than this.
DEEPEST = 32


class Reader:
    """Fetches what it is asked for."""

    def __init__(self, folder: Path) -> None:
        self._store = Store(folder)

    def answer(self, *parts: bytes) -> list[bytes]:
        """Answer all parts of a message from one state of the store."""
        with self._store.transaction("DEFERRED") as connection:
            return [_answer(connection, part) for part in parts]


def _answer(connection: sqlite3.Connection, part: bytes) -> bytes:
    try:
        return write(fetch(connection, read(part, bucket=str, key=str), 0))
    except BadPart as trouble:
        return error(trouble)


def fetch(connection: sqlite3.Connection, said: dict[str, Any], depth: int) -> dict[str, Any]:
    """Fill in one request: bucket, key, data (or why there is none), relations."""
    bucket, key = said["bucket"], said["key"]
    data = get(connection, bucket, key)
    found: dict[str, Any] = {"bucket": bucket, "key": key}
    if data is None:
        found["error"] = "there is no such key in that bucket"
    else:
        found["data"] = data
    relations = said.get("relations")
    if relations is not None:
        found["relations"] = _related(connection, checked(relations), depth + 1)
    return found


def _related(
    connection: sqlite3.Connection, relations: dict[str, Any], depth: int
) -> dict[str, Any]:
    if depth > DEEPEST:
        raise BadPart(f"relations are nested deeper than {DEEPEST}")
    found = {}
    for name, asked in relations.items():
        several = asked if isinstance(asked, list) else [asked]
        requests = [checked(each, bucket=str, key=str) for each in several]
        answers = [fetch(connection, each, depth) for each in requests]
        found[name] = answers if isinstance(asked, list) else answers[0]
    return found


def worker(url: str, folder: Path) -> Worker:
    """Make the worker; there may be any number of them."""
    return offer(Worker(url, service=SERVICE), Reader(folder).answer)


if __name__ == "__main__":
    said = options("DagBox's datastore reader.", with_folder=True)
    worker(said.url, said.folder).run()
