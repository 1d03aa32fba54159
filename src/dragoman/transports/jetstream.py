"""One stream of JetStream, as the replicated ledger needs it.

Each publish names the last sequence that it expects. A message above the servers' limit becomes an
atomic batch of pieces; the client library has no call for that, so the headers are sent as they
are. Never send `Nats-Expected-Last-Msg-Id`: in nats-server 2.15.1 a mismatch stops a replicated
stream for good.
"""

import base64
import contextlib
import os
import time
from typing import Any, Final, NamedTuple

import nats.errors
import nats.js.api
from nats.aio.msg import Msg

from dragoman.transports.jetstream_connection import (
    NOT_FOUND,
    REQUEST,
    Headers,
    JetStreamConnection,
    JetStreamRefusal,
    Json,
    parse_headers,
)

#: Bytes of one piece of a message; the servers take 1 MiB by default, with headers.
PIECE: Final = 900_000
#: Pieces sent before the client waits until they have left.
_FLUSH_EVERY: Final = 8
_DUPLICATES: Final = 120 * 10**9
_ID: Final = "Dragoman-Id"
_PIECES: Final = "Dragoman-Piece"
_EXPECTED: Final = "Nats-Expected-Last-Sequence"


class JetStreamMessage(NamedTuple):
    """A message: its first and last sequence, its id, and its content."""

    first: int
    last: int
    id: str
    data: bytes


class StreamServers(NamedTuple):
    """The servers that have a copy of a stream, as its leader knows them."""

    leader: str
    #: The servers whose copies are complete, the leader among them; and the others.
    current: tuple[str, ...]
    behind: tuple[str, ...]


class JetStream:
    """One stream. Large messages are stored as atomic batches of pieces."""

    def __init__(self, connection: JetStreamConnection, name: str, subject: str) -> None:
        self._connection = connection
        self.name = name
        self._subject = subject
        self._reader: _JetStreamReader | None = None

    @classmethod
    def open(
        cls, connection: JetStreamConnection, name: str, subject: str, replicas: int
    ) -> "JetStream":
        """Open a stream; create it if it is missing."""
        connection.create(
            {
                "name": name,
                "subjects": [subject],
                "storage": "file",
                "retention": "limits",
                "discard": "new",
                "num_replicas": replicas,
                "duplicate_window": _DUPLICATES,
                "allow_atomic": True,
                "deny_delete": True,
            }
        )
        return cls(connection, name, subject)

    def publish(self, data: bytes, message_id: str, expected_last: int) -> int | None:
        """Store a message behind `expected_last`, whole; None: something else is there."""
        pieces = max(1, -(-len(data) // PIECE))
        work = (
            self._publish_one(data, message_id, expected_last)
            if pieces == 1
            else self._publish_batch(data, message_id, expected_last, pieces)
        )
        try:
            answer = self._connection.run(work, REQUEST + pieces * 0.5)
        except JetStreamRefusal as error:
            error.require_taken()
            return None
        return int(answer["seq"])

    async def _publish_one(self, data: bytes, message_id: str, expected_last: int) -> Json:
        headers = {_ID: message_id, "Nats-Msg-Id": message_id, _EXPECTED: str(expected_last)}
        return await self._connection.request(self._subject, data, headers)

    async def _publish_batch(
        self, data: bytes, message_id: str, expected_last: int, pieces: int
    ) -> Json:
        """Send the pieces; the last one commits. The server stores all of them or none."""
        client, batch = self._connection.client, os.urandom(16).hex()
        for number in range(1, pieces + 1):
            headers = {_ID: message_id, _PIECES: f"{number}/{pieces}", "Nats-Batch-Id": batch}
            headers["Nats-Batch-Sequence"] = str(number)
            if number == 1:
                headers[_EXPECTED] = str(expected_last)
            piece = data[(number - 1) * PIECE : number * PIECE]
            if number == pieces:
                headers["Nats-Batch-Commit"] = "1"
                return await self._connection.request(
                    self._subject, piece, headers, REQUEST + pieces * 0.25
                )
            try:
                await client.publish(self._subject, piece, headers=headers)
                if number % _FLUSH_EVERY == 0:
                    await client.flush(2)
            except (TimeoutError, nats.errors.Error) as error:
                raise ConnectionError(str(error)) from error
        raise AssertionError("unreachable")

    def read(self, first: int) -> JetStreamMessage | None:
        """Return the message that begins at a sequence."""
        return self._connection.run(self._read(first), REQUEST * 4)

    async def _read(self, first: int) -> JetStreamMessage | None:
        data, last, pieces, message_id = b"", first, 1, ""
        while last < first + pieces:
            try:
                answer = await self._connection.ask(f"STREAM.MSG.GET.{self.name}", {"seq": last})
            except JetStreamRefusal as error:
                if error.code == NOT_FOUND:
                    return None
                raise ConnectionError(str(error)) from error
            found = answer["message"]
            headers = parse_headers(base64.b64decode(found.get("hdrs", "")))
            message_id, pieces = headers.get(_ID, ""), _count(headers)[1]
            data += base64.b64decode(found.get("data", ""))
            last += 1
        return JetStreamMessage(first, last - 1, message_id, data)

    def follow(self, after: int, at_most: float) -> list[JetStreamMessage]:
        """Return messages after a sequence; wait for the first one up to `at_most` seconds."""
        return self._connection.run(self._follow(after, at_most), at_most + REQUEST * 4)

    async def _follow(self, after: int, at_most: float) -> list[JetStreamMessage]:
        reader = self._reader
        if reader is None or reader.after != after:
            await self._drop_reader()
            reader = self._reader = _JetStreamReader(
                self._connection, self.name, self._subject, after
            )
        try:
            return await reader.next(at_most)
        except BaseException:
            await self._drop_reader()
            raise

    async def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()

    def last_sequence(self) -> int:
        """Return the newest sequence."""
        return int(self._state()["last_seq"])

    def first_sequence(self) -> int:
        """Return the oldest kept sequence."""
        return max(1, int(self._state()["first_seq"]))

    def servers(self) -> StreamServers:
        """Return which servers have the stream. Raises TimeoutError if it has no leader."""
        info = self._connection.run(self._ask("INFO", {}), REQUEST * 2)
        return stream_servers(info.get("cluster") or {})

    def _state(self) -> Json:
        info = self._connection.run(self._ask("INFO", {}), REQUEST * 2)
        return dict(info["state"])

    def purge(self, before: int) -> None:
        """Remove the messages before a sequence."""
        self._connection.run(self._ask("PURGE", {"seq": before}), REQUEST * 2)

    async def _ask(self, call: str, argument: Json) -> Json:
        try:
            return await self._connection.ask(f"STREAM.{call}.{self.name}", argument)
        except JetStreamRefusal as error:
            raise ConnectionError(str(error)) from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class _JetStreamReader:
    """Reads messages in order, with a consumer of its own that the server forgets by itself."""

    _BATCH: Final = 64
    _FORGET: Final = 30.0
    _SILENCE: Final = 1.0  #: seconds without a message until the stream is asked for its end

    def __init__(
        self, connection: JetStreamConnection, stream: str, subject: str, after: int
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._subject = subject
        self.after = after  #: the last sequence of the newest complete message
        self._subscription: Any = None
        self._pieces: list[bytes] = []
        self._heard_at = time.monotonic()

    async def next(self, at_most: float) -> list[JetStreamMessage]:
        """Return the next complete messages; nothing if none come in time."""
        try:
            if self._subscription is None:
                await self._subscribe()
            found = await self._subscription.fetch(self._BATCH, max(at_most, 0.05))
        except (TimeoutError, nats.errors.TimeoutError):
            await self._check()
            return []
        except nats.errors.Error as error:
            raise ConnectionError(str(error)) from error
        complete = [self._take(message) for message in found]
        return [message for message in complete if message is not None]

    async def _subscribe(self) -> None:
        config = nats.js.api.ConsumerConfig(
            deliver_policy=nats.js.api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self.after + 1,
            ack_policy=nats.js.api.AckPolicy.NONE,
            inactive_threshold=self._FORGET,
            mem_storage=True,
            num_replicas=1,
        )
        context = self._connection.client.jetstream(timeout=REQUEST)
        self._subscription = await context.pull_subscribe(
            self._subject, stream=self._stream, config=config
        )

    async def _check(self) -> None:
        """After silence: if the stream has more, the consumer is gone with its server."""
        if time.monotonic() - self._heard_at < self._SILENCE:
            return
        self._heard_at = time.monotonic()
        try:
            info = await self._connection.ask(f"STREAM.INFO.{self._stream}", {})
        except JetStreamRefusal as error:
            raise ConnectionError(str(error)) from error
        if int(info["state"]["last_seq"]) > self.after:
            raise ConnectionError("the consumer of the stream does not deliver")

    def _take(self, message: Msg) -> JetStreamMessage | None:
        """Take one piece; return the message if it is complete."""
        self._heard_at = time.monotonic()
        sequence, headers = message.metadata.sequence.stream, message.headers or {}
        number, pieces = _count(headers)
        if number != len(self._pieces) + 1:
            raise ConnectionError(f"message {sequence} of the stream is not the expected piece")
        self._pieces.append(message.data)
        if number < pieces:
            return None
        data, self._pieces = b"".join(self._pieces), []
        self.after = sequence
        return JetStreamMessage(sequence - pieces + 1, sequence, headers.get(_ID, ""), data)

    async def close(self) -> None:
        """Unsubscribe."""
        if self._subscription is not None:
            with contextlib.suppress(nats.errors.Error):
                await self._subscription.unsubscribe()


def stream_servers(found: Json) -> StreamServers:
    """Read the part of a stream's description about its servers."""
    leader, others = str(found.get("leader", "")), found.get("replicas") or []
    is_current = {str(each["name"]): _is_current(each) for each in others}
    current = [leader, *(name for name, current in is_current.items() if current)]
    behind = [name for name, current in is_current.items() if not current]
    return StreamServers(leader, tuple(sorted(filter(None, current))), tuple(sorted(behind)))


def _is_current(replica: Json) -> bool:
    return bool(replica.get("current")) and not replica.get("offline")


def _count(headers: Headers) -> tuple[int, int]:
    """Return the number of a piece, and how many there are."""
    number, _, pieces = headers.get(_PIECES, "1/1").partition("/")
    return int(number), int(pieces)
