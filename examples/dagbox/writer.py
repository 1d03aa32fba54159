"""The datastore writer: stores values under new keys. It never overwrites or deletes."""

import uuid
from collections.abc import Callable
from pathlib import Path

from examples.dagbox.parts import BadPart, error, options, read, with_fallback, write
from examples.dagbox.store import Store, put

from dragoman import Worker

SERVICE = "datastore writer"


class Writer:
    """Writes values to the store."""

    def __init__(
        self, folder: Path, new_key: Callable[[], str] = lambda: str(uuid.uuid4())
    ) -> None:
        self._store = Store(folder)
        self._new_key = new_key

    def answer(self, *parts: bytes) -> list[bytes]:
        """Store all parts of a message, or none of them if one is wrong."""
        requests, answers = [], []
        for part in parts:
            try:
                requests.append(read(part, bucket=str, data=str))
                answers.append(error("not stored: another part of the message is wrong"))
            except BadPart as problem:
                answers.append(error(problem))
        if len(requests) < len(parts):
            return answers
        keys = [self._new_key() for _ in requests]
        with self._store.transaction("IMMEDIATE") as connection:
            for key, request in zip(keys, requests, strict=True):
                put(connection, request["bucket"], key, request["data"])
        return [write(key) for key in keys]


def worker(url: str, folder: Path) -> Worker:
    """Make the worker."""
    return with_fallback(Worker(url, service=SERVICE, concurrency=1), Writer(folder).answer)


if __name__ == "__main__":
    arguments = options("DagBox's datastore writer.", with_folder=True)
    worker(arguments.url, arguments.folder).run()
