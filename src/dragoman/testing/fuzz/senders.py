"""Sends mutated messages to a broker over real sockets, and discards the answers.

`send` returns how many messages were sent for certain. Some connections start with invalid bytes or
never read, as hostile peers do.
"""

import asyncio
import json
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from random import Random
from struct import Struct, pack
from typing import Final, Protocol
from urllib.parse import urlsplit

import zmq

from dragoman.testing.fuzz.http import LAST
from dragoman.testing.fuzz.mutations import Frames
from dragoman.transports.sp_connection import REQUESTER

#: Requests for one connection, and whether the last of them may never be answered.
Batch = tuple[list[bytes], bool]
_PEERS: Final = 6
_PATIENCE: Final = 10.0


class Sender(Protocol):
    """Sends messages to one link."""

    def send(self, messages: Sequence[Frames]) -> int:
        """Send messages; return how many were sent."""
        ...

    def close(self) -> None:
        """Close every socket."""
        ...


class ZmqSender:
    """DEALERs with different identities; one of them never reads."""

    def __init__(self, endpoint: str, random: Random) -> None:
        self._random = random
        self._endpoint = endpoint
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        names = [b"w-1", b"w-2", b"c-1", b"\xff\xfe", b"", b"deaf"]
        self._sockets = [self._connect(name) for name in names[:_PEERS]]

    def _connect(self, name: bytes) -> "zmq.Socket[bytes]":
        made = self._context.socket(zmq.DEALER)
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.SNDTIMEO, round(_PATIENCE * 1000))
        if name:
            made.setsockopt(zmq.IDENTITY, name)
        made.connect(self._endpoint)
        return made

    def send(self, messages: Sequence[Frames]) -> int:
        """Send each message from one of the peers."""
        for frames in messages:
            self._random.choice(self._sockets).send_multipart(frames or [b""])
        for peer in self._sockets[:-1]:
            _discard_replies(peer)
        return len(messages)

    def close(self) -> None:
        """Close every peer."""
        self._context.destroy(linger=0)


def _discard_replies(peer: "zmq.Socket[bytes]") -> None:
    with suppress(zmq.Again):
        while True:
            peer.recv_multipart(zmq.NOBLOCK)


class _TcpStream:
    """A connection whose answers are read and discarded."""

    def __init__(self, endpoint: str, hello: bytes) -> None:
        address = urlsplit(endpoint)
        self.socket = socket.create_connection(
            (address.hostname or "", address.port or 0), _PATIENCE
        )
        self.socket.settimeout(None)
        # Only sending has a timeout: it shows a broker that stopped reading.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, pack("ll", 30, 0))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.socket.sendall(hello)

    def _read(self) -> None:
        with suppress(OSError):
            while data := self.socket.recv(1 << 20):
                self.on_data(data)

    def on_data(self, data: bytes) -> None:
        """Discard answers."""

    def close(self) -> None:
        """Close the connection and wait for the reader."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._reader.join(_PATIENCE)
        self.socket.close()


class SpSender:
    """Requests of memo01's transport, many open at once on few connections."""

    _LENGTH: Final = Struct(">QI")

    def __init__(self, endpoint: str, random: Random) -> None:
        self._endpoint = endpoint
        self._random = random
        self._requests = count(1)
        self._streams = [_TcpStream(endpoint, REQUESTER) for _ in range(_PEERS)]

    def send(self, messages: Sequence[Frames]) -> int:
        """Send a share of the messages on each connection, and a bad greeting on a new one."""
        for at, stream in enumerate(self._streams):
            share = messages[at :: len(self._streams)]
            stream.socket.sendall(b"".join(self._frame(frames[0]) for frames in share))
        self._send_bad_greeting()
        return len(messages)

    def _frame(self, message: bytes) -> bytes:
        request = 0x80000000 | next(self._requests) & 0x7FFFFFFF
        return self._LENGTH.pack(len(message) + 4, request) + message

    def _send_bad_greeting(self) -> None:
        """Open a connection with another protocol or a wrong length."""
        hello = self._random.choice((b"GET / HTTP/1.1\r\n\r\n", REQUESTER + b"\xff" * 12, b"\0SP"))
        with suppress(OSError):
            _TcpStream(self._endpoint, hello).close()

    def close(self) -> None:
        """Close every connection."""
        for stream in self._streams:
            stream.close()


class _NatsStream(_TcpStream):
    """A NATS connection that answers the server's pings."""

    def on_data(self, data: bytes) -> None:
        """Answer a ping."""
        if b"PING\r\n" in data:
            self.socket.sendall(b"PONG\r\n")


class NatsSender:
    """Publishes on its own connection. Messages that NATS itself refuses are not sent."""

    _BLANKS: Final = bytes.maketrans(b" \t\r\n\0*>", b"_______")

    def __init__(self, endpoint: str, random: Random) -> None:
        fields = json.dumps({"verbose": False, "pedantic": False, "headers": True, "lang": "fuzz"})
        hello = f"CONNECT {fields}\r\nSUB _INBOX.fuzz.> 1\r\n".encode()
        self._stream = _NatsStream(endpoint, hello)

    def send(self, messages: Sequence[Frames]) -> int:
        """Publish every message."""
        self._stream.socket.sendall(b"".join(self._publish(frames) for frames in messages))
        return len(messages)

    def _publish(self, frames: Frames) -> bytes:
        subject, body, headers, reply = frames
        subject = subject.translate(self._BLANKS)[:200] or b"x"
        line = subject + b" " + reply if reply else subject
        if not headers:
            return b"PUB %s %d\r\n%s\r\n" % (line, len(body), body)
        block = b"NATS/1.0\r\n" + b"".join(_headers(headers)) + b"\r\n"
        size = len(block)
        return b"HPUB %s %d %d\r\n%s%s\r\n" % (line, size, size + len(body), block, body)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


def _headers(fields: bytes) -> list[bytes]:
    pairs: dict[str, object] = json.loads(fields)
    return [f"{name}: {text}\r\n".encode() for name, text in pairs.items()]


class HttpSender:
    """Pipelined requests on several connections; counted when answered."""

    #: Requests on one connection before it is closed.
    _PIPELINED: Final = 25
    #: Seconds to wait for the answers of a connection, by whether its last request may never be
    #: answered.
    _PATIENCE: Final = {False: 10.0, True: 0.7}
    _CONNECTIONS: Final = 48
    _CLOSE: Final = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"

    def __init__(self, endpoint: str, random: Random) -> None:
        address = urlsplit(endpoint)
        self._address = (address.hostname or "127.0.0.1", address.port or 0)

    def send(self, messages: Sequence[Frames]) -> int:
        """Send the messages; return how many were answered or ended their connection."""
        return asyncio.run(self._send(batches(messages, self._PIPELINED)))

    async def _send(self, found: list[Batch]) -> int:
        limit = asyncio.Semaphore(self._CONNECTIONS)

        async def one(batch: Batch) -> int:
            async with limit:
                return await self._speak(*batch)

        return sum(await asyncio.gather(*(one(batch) for batch in found)))

    async def _speak(self, requests: list[bytes], is_last: bool) -> int:
        """Send requests on one connection; stop waiting for missing answers."""
        reader, writer = await asyncio.open_connection(*self._address)
        answers = 0
        try:
            writer.write(b"".join(requests) + self._CLOSE)
            async with asyncio.timeout(self._PATIENCE[is_last]):
                while data := await reader.read(1 << 20):
                    answers += data.count(b"HTTP/1.1 ")
        except (OSError, TimeoutError):
            answers += 1
        finally:
            writer.transport.abort()
        return min(answers, len(requests))

    def close(self) -> None:
        """Do nothing: no connection stays open."""


def batches(messages: Sequence[Frames], size: int) -> list[Batch]:
    """Group messages by connection; a last request ends its group."""
    found: list[Batch] = []
    requests: list[bytes] = []
    for frames in messages:
        requests.append(frames[0])
        is_last = frames[1:] == [LAST]
        if is_last or len(requests) >= size:
            found.append((requests, is_last))
            requests = []
    return [*found, (requests, False)] if requests else found
