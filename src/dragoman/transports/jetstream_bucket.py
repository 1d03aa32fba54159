"""A bucket of JetStream: keys with a time to live, for leases."""

import base64
from typing import Final

from dragoman.transports.jetstream_connection import (
    NOT_FOUND,
    REQUEST,
    Headers,
    JetStreamConnection,
    JetStreamRefusal,
    parse_headers,
)

_SECOND: Final = 10**9
_EXPECTED_OF_KEY: Final = "Nats-Expected-Last-Subject-Sequence"
_OPERATION: Final = "KV-Operation"


class JetStreamBucket:
    """Keys with a time to live; each change names the revision that it replaces."""

    def __init__(self, connection: JetStreamConnection, name: str) -> None:
        self._connection = connection
        self._name = name

    @classmethod
    def open(
        cls, connection: JetStreamConnection, name: str, replicas: int, ttl: float
    ) -> "JetStreamBucket":
        """Open a bucket whose keys live for `ttl` seconds; create it if it is missing."""
        connection.create(
            {
                "name": f"KV_{name}",
                "subjects": [f"$KV.{name}.>"],
                "storage": "file",
                "retention": "limits",
                "discard": "new",
                "max_msgs_per_subject": 1,
                "max_age": int(ttl * _SECOND),
                "duplicate_window": int(min(ttl, 120) * _SECOND),
                "num_replicas": replicas,
                "allow_rollup_hdrs": True,
                "deny_delete": True,
            }
        )
        return cls(connection, name)

    def get(self, key: str) -> tuple[bytes, int] | None:
        """Return value and revision; None: the key does not exist, or no longer."""
        found = self._get(key)
        return None if found is None or found[2] else found[:2]

    def create(self, key: str, value: bytes) -> int | None:
        """Create a key; return its revision, or None if it exists."""
        found = self._get(key)
        if found is not None and not found[2]:
            return None
        return self._put(key, value, found[1] if found is not None else 0)

    def update(self, key: str, value: bytes, revision: int) -> int | None:
        """Replace a revision; return the new one, or None if the key has another revision."""
        return self._put(key, value, revision)

    def delete(self, key: str, revision: int) -> bool:
        """Delete a key that has this revision."""
        return self._put(key, b"", revision, {_OPERATION: "DEL"}) is not None

    def _get(self, key: str) -> tuple[bytes, int, bool] | None:
        """Return value, revision, and whether it is only the mark of a deletion."""
        work = self._connection.ask(
            f"STREAM.MSG.GET.KV_{self._name}", {"last_by_subj": f"$KV.{self._name}.{key}"}
        )
        try:
            found = self._connection.run(work, REQUEST * 2)["message"]
        except JetStreamRefusal as error:
            if error.code == NOT_FOUND:
                return None
            raise ConnectionError(str(error)) from error
        headers = parse_headers(base64.b64decode(found.get("hdrs", "")))
        value = base64.b64decode(found.get("data", ""))
        return value, int(found["seq"]), _OPERATION in headers

    def _put(
        self, key: str, value: bytes, revision: int, more: Headers | None = None
    ) -> int | None:
        headers = {_EXPECTED_OF_KEY: str(revision), **(more or {})}
        work = self._connection.request(f"$KV.{self._name}.{key}", value, headers)
        try:
            return int(self._connection.run(work, REQUEST * 2)["seq"])
        except JetStreamRefusal as error:
            error.require_taken()
            return None
