"""The datastore reader: returns values, with related values if the request names them."""

import sqlite3
from pathlib import Path
from typing import Any

from examples.dagbox.parts import BadPart, checked, error, options, read, with_fallback, write
from examples.dagbox.store import Store, get

from dragoman import Worker

SERVICE = "datastore reader"
#: Maximum depth of nested relations.
MAX_DEPTH = 32


class Reader:
    """Reads values from the store."""

    def __init__(self, folder: Path) -> None:
        self._store = Store(folder)

    def answer(self, *parts: bytes) -> list[bytes]:
        """Answer all parts of a message in one read transaction."""
        with self._store.transaction("DEFERRED") as connection:
            return [_answer(connection, part) for part in parts]


def _answer(connection: sqlite3.Connection, part: bytes) -> bytes:
    try:
        return write(fetch(connection, read(part, bucket=str, key=str), 0))
    except BadPart as problem:
        return error(problem)


def fetch(connection: sqlite3.Connection, request: dict[str, Any], depth: int) -> dict[str, Any]:
    """Answer one request: bucket, key, data or error, relations."""
    bucket, key = request["bucket"], request["key"]
    data = get(connection, bucket, key)
    found: dict[str, Any] = {"bucket": bucket, "key": key}
    if data is None:
        found["error"] = "there is no such key in that bucket"
    else:
        found["data"] = data
    relations = request.get("relations")
    if relations is not None:
        found["relations"] = _related(connection, checked(relations), depth + 1)
    return found


def _related(
    connection: sqlite3.Connection, relations: dict[str, Any], depth: int
) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise BadPart(f"relations are nested deeper than {MAX_DEPTH}")
    found = {}
    for name, wanted in relations.items():
        several = wanted if isinstance(wanted, list) else [wanted]
        requests = [checked(each, bucket=str, key=str) for each in several]
        answers = [fetch(connection, each, depth) for each in requests]
        found[name] = answers if isinstance(wanted, list) else answers[0]
    return found


def worker(url: str, folder: Path) -> Worker:
    """Make the worker; there may be any number of them."""
    return with_fallback(Worker(url, service=SERVICE), Reader(folder).answer)


if __name__ == "__main__":
    arguments = options("DagBox's datastore reader.", with_folder=True)
    worker(arguments.url, arguments.folder).run()
