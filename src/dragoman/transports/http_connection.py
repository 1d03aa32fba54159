"""One HTTP connection of a peer to its broker, and the event stream in an answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

import h11

from dragoman.transports.recognition import recognise

#: A connection without a byte for this long is dead; longer than any long poll of a broker.
_DEAD_AFTER: Final = 90.0


class HttpConnection:
    """One connection to one address of the broker."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.address = address
        self._host = urlsplit(address).netloc.rpartition("@")[2].encode()
        self._http = h11.Connection(h11.CLIENT)
        self._has_ended = False
        #: The first bytes of the server, to recognise another protocol.
        self.first_bytes = b""
        self.is_used = False

    async def ask(
        self, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> int:
        """Send a request; return the status of the answer."""
        headers = [(b"host", self._host), *headers]
        if body or method == b"POST":
            headers = [*headers, (b"content-length", str(len(body)).encode())]
        http = self._http
        data = http.send(h11.Request(method=method, target=target, headers=headers)) or b""
        data += http.send(h11.Data(data=body)) or b"" if body else b""
        self._writer.write(data + (http.send(h11.EndOfMessage()) or b""))
        await self._writer.drain()
        while True:
            event = await self._next()
            if type(event) is h11.Response:
                return event.status_code

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the answer's body in chunks."""
        while True:
            event = await self._next()
            if type(event) is h11.Data:
                yield bytes(event.data)
            elif type(event) is h11.EndOfMessage:
                return

    async def _next(self) -> object:
        while True:
            event = self._event()
            if event is not h11.NEED_DATA:
                if type(event) is h11.ConnectionClosed:
                    raise EOFError("the broker closed the connection")
                return event
            async with asyncio.timeout(_DEAD_AFTER):
                data = await self._reader.read(65_536)
            self._has_ended = not data
            self.first_bytes = self.first_bytes or data[:16]
            self._http.receive_data(data)

    def _event(self) -> object:
        """Return the next event. A truncated answer is a dead broker, not a protocol error."""
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError:
            if self._has_ended:
                raise EOFError("the connection ended in the middle of an answer") from None
            if other := recognise(self.first_bytes):
                raise h11.RemoteProtocolError(f"the port speaks {other}, not HTTP") from None
            raise

    def is_reusable(self) -> bool:
        """Prepare for the next request; return whether the connection can carry one."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self.is_used = True
        return not self._reader.at_eof()

    def close(self) -> None:
        """Close the connection; with TLS, do not wait for the broker's close_notify."""
        if self._writer.get_extra_info("ssl_object") is None:
            self._writer.close()
        else:
            self.abort()

    def abort(self) -> None:
        """Close the connection now; its reader gets an error."""
        self._writer.transport.abort()


class SseReader:
    """Parses server-sent events; remembers the last event ID for the next connection."""

    def __init__(self, headers: list[tuple[bytes, bytes]]) -> None:
        self._headers = headers
        self._last = b""
        self._rest = bytearray()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of a request for the events after the last one seen."""
        self._rest.clear()
        asked = [*self._headers, (b"accept", b"text/event-stream")]
        return [*asked, (b"last-event-id", self._last)] if self._last else asked

    def feed(self, piece: bytes) -> list[tuple[bytes, bytes]]:
        """Parse bytes; return the events they complete: name and data."""
        # Search the new bytes only: a large event comes in thousands of pieces.
        start = max(0, len(self._rest) - 1)
        self._rest += piece
        end = self._rest.rfind(b"\n\n", start)
        if end < 0:
            return []
        whole = bytes(self._rest[:end]).split(b"\n\n")
        del self._rest[: end + 2]
        return [event for text in whole if (event := self._event(text)) is not None]

    def _event(self, text: bytes) -> tuple[bytes, bytes] | None:
        name, data = b"", None
        for line in text.split(b"\n"):
            field, _, value = line.partition(b": ")
            if field == b"id":
                self._last = value
            elif field == b"event":
                name = value
            elif field == b"data":
                data = value
        return None if data is None else (name, data)
