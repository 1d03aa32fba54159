"""The datastore writer: values go in under keys that it makes up. No overwriting, no deleting."""

import uuid
from collections.abc import Callable
from pathlib import Path

from examples.dagbox.parts import BadPart, error, offer, options, read, write
from examples.dagbox.store import Store, put

from dragoman import Worker

SERVICE = "datastore writer"


class Writer:
    """Stores what it is given."""

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
            except BadPart as trouble:
                answers.append(error(trouble))
        if len(requests) < len(parts):
            return answers
        keys = [self._new_key() for _ in requests]
        with self._store.transaction("IMMEDIATE") as connection:
            for key, said in zip(keys, requests, strict=True):
                put(connection, said["bucket"], key, said["data"])
        return [write(key) for key in keys]


def worker(url: str, folder: Path) -> Worker:
    """Make the worker."""
    return offer(Worker(url, service=SERVICE, concurrency=1), Writer(folder).answer)


if __name__ == "__main__":
    said = options("DagBox's datastore writer.", with_folder=True)
    worker(said.url, said.folder).run()
