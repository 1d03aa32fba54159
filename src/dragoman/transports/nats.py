"""NATS for the broker and for workers: subjects as addresses, one connection, order kept.

Messages of the subscriptions are drained as `(subject, [body, headers, reply])`. The headers are
compact JSON, the reply is a subject; both are empty if absent. If a message with a reply subject
has no subscriber, the server's answer arrives as a message with an empty body and the headers
`{"Status":"503"}`. After a reconnection `(b"", [b"", b"", b""])` arrives: messages may be lost.

`send(subject, frames)` takes the same three frames. A peer without addresses of its own uses
`NatsPeer`, whose frames are `[subject, body, headers, reply]` in both directions.

The connection is made, and made again, in the background; messages sent meanwhile wait in a bounded
queue. nats-py hands over each message in its read loop, before any queue of its own, so messages
arrive in wire order across all subscriptions.
"""

import asyncio
import contextlib
import logging
import re
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec
import nats.errors
from nats.aio.client import Client

from dragoman.transports.addresses import split_addresses
from dragoman.transports.base import Address, Frames, Key, Sent
from dragoman.transports.certificate_names import HandshakeFailed, explain
from dragoman.transports.tls import PeerTls

if TYPE_CHECKING:
    from dragoman.transports.nkeys import Nkey

log = logging.getLogger(__name__)

#: Messages that may wait to be drained; more are dropped, counted and logged.
_MAX_ARRIVED: Final = 200_000
#: Messages and bytes that may wait to be sent before `send` answers `Sent.FULL`.
_MAX_UNSENT: Final = 100_000
_MAX_UNSENT_BYTES: Final = 256 * 1024 * 1024
#: Seconds between attempts to connect.
_RECONNECT: Final = 0.25
_OPTIONS: Final[dict[str, object]] = {
    "max_reconnect_attempts": -1,
    "reconnect_time_wait": _RECONNECT,
    "ping_interval": 10,
}
#: Seconds that queued messages have to be sent when the transport closes.
_LINGER: Final = 1.0
#: Seconds that the broker's own connection may take before `open` fails.
_CONNECT_TIMEOUT: Final = 30.0

_REFUSED: Final = re.compile(r"(?i)authorization|permissions|certificate|tls|ssl")
_RECONNECTED: Final = (b"", [b"", b"", b""])


class SupervisedServer(Protocol):
    """A NATS server that the transport starts and stops."""

    async def start(self) -> str:
        """Start it and return its URL."""
        ...

    async def stop(self) -> None:
        """Stop it."""
        ...

    @property
    def nkey(self) -> "Nkey | None":
        """The key with which its owner authenticates; None: no authentication."""
        ...

    def refresh(self) -> None:
        """Pass the current users to the server now."""
        ...

    def background_tasks(self) -> "list[asyncio.Task[None]]":
        """Return the tasks that run as long as the server."""
        ...


class Nats:
    """One connection to NATS with its subscriptions."""

    def __init__(
        self,
        url: str,
        subscriptions: Sequence[str],
        *,
        name: str = "dragoman",
        server: SupervisedServer | None = None,
        connects_in_background: bool = False,
        nkey: "Nkey | None" = None,
        jwt: str = "",
        tls: PeerTls | None = None,
        keys: Callable[[str], Key] | None = None,
        **options: object,
    ) -> None:
        """Prepare a connection.

        Args:
            url: `nats://`, `tls://` or `tcp://`, with a token or user if the server asks for one;
                several addresses are separated by commas. Not used with a supervised server.
            subscriptions: the subjects to subscribe to, before anything is sent.
            name: the connection's name in the server's listings.
            server: a server to start and stop together with the connection.
            connects_in_background: `open` returns at once, even if the server is down.
            nkey: the key to authenticate with; a supervised server has its own.
            jwt: the JWT that an operator signed for the nkey, if there is one.
            tls: the trusted authority; None: no encryption.
            keys: returns the key that the server has verified for the sender on a subject.
            options: more options of nats-py (`token`, `tls`, ...).

        """
        self._url = url
        self._subscriptions = tuple(subscriptions)
        self._name = name
        self.server = server
        self._is_patient = connects_in_background
        self._nkey = nkey
        self._jwt = jwt
        self._tls = tls
        self._keys = keys
        self._options = options
        self._wake: Callable[[], None] = lambda: None
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()
        self._unsent: deque[tuple[str, Frames]] = deque()
        self._unsent_bytes = 0
        self._has_unsent = asyncio.Event()
        self._is_empty = asyncio.Event()
        self._is_up = asyncio.Event()
        self._is_closed = asyncio.Event()
        self._client: Client | None = None
        self._runner: asyncio.Task[None] | None = None
        #: Messages that were dropped: the queue was full, or NATS refused them.
        self.dropped = 0
        self.reconnections = 0
        self.last_error = ""

    # --- the transport interface ----------------------------------------------------------------

    async def open(self, wake: Callable[[], None]) -> str:
        """Connect and subscribe; return the endpoint as `tcp://host:port`."""
        self._wake = wake
        if self.server is not None:
            self._url = await self.server.start()
            self._nkey = self.server.nkey or self._nkey
        self._runner = asyncio.create_task(self._run(), name=f"dragoman nats {self._name}")
        if not self._is_patient:
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT):
                    await self._is_up.wait()
            except TimeoutError:
                await self.close()
                message = f"no NATS server at {_without_secrets(self._url)}: {self.last_error}"
                raise ConnectionError(message) from None
        return _without_secrets(self._url)

    def background_tasks(self) -> "list[asyncio.Task[None]]":
        """Return the tasks that run as long as the transport is open."""
        own = [self._runner] if self._runner is not None else []
        return own + (self.server.background_tasks() if self.server is not None else [])

    def drain(self, limit: int) -> Iterable[tuple[Address, list[bytes]]]:
        """Yield at most `limit` messages that have arrived."""
        arrived = self._arrived
        for _ in range(min(limit, len(arrived))):
            yield arrived.popleft()
        if arrived:
            self._wake()

    def send(self, address: Address, frames: Frames) -> Sent:
        """Send one message to a subject, without waiting."""
        if len(self._unsent) >= _MAX_UNSENT or self._unsent_bytes >= _MAX_UNSENT_BYTES:
            return Sent.FULL
        if self._is_closed.is_set():
            return Sent.GONE
        self._unsent.append((address.decode(), frames))
        self._unsent_bytes += len(frames[0])
        return Sent.YES

    def flush(self) -> None:
        """Let the writer send what is queued."""
        if self._unsent:
            self._has_unsent.set()

    async def close(self) -> None:
        """Send what is queued, disconnect, and stop a supervised server."""
        self.flush()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER):
                while self._unsent and self._is_up.is_set():
                    self._is_empty.clear()
                    await self._is_empty.wait()
        self._is_closed.set()
        if self._runner is not None:
            self._runner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._runner
        await self._disconnect()
        if self.server is not None:
            await self.server.stop()

    # --- the connection -------------------------------------------------------------------------

    async def _run(self) -> None:
        """Connect, write what is queued, and reconnect after every failure."""
        while True:
            try:
                await self._connect()
                await self._write_all()
            except (OSError, nats.errors.Error, TimeoutError) as error:
                await self._on_error(error)
            self._is_up.clear()
            await self._disconnect()
            await asyncio.sleep(_RECONNECT)

    async def _connect(self) -> None:
        was_there = self._client is not None or self.reconnections > 0
        client = self._client = Client()
        # nats-py calls this for every message in its read loop; the result is discarded.
        client.msg_class = self._receive  # type: ignore[assignment]
        if self._nkey is not None:
            # If nats-py had the seed, it would need another library for the same signature.
            client._public_nkey = self._nkey.public
            client._auth_configured = True
        await client.connect(
            servers=[_nats_url(each) for each in split_addresses(self._url)],
            name=self._name,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            closed_cb=self._on_disconnected,
            **{**_OPTIONS, **self._credentials(), **self._options},
        )
        for subject in self._subscriptions:
            await client.subscribe(subject)
        # A round trip: the server has the subscriptions before the first message is sent.
        await client.flush()
        self._is_up.set()
        if was_there:
            self._reconnected()

    def _credentials(self) -> dict[str, Any]:
        """Return nats-py's options for authentication and TLS."""
        found: dict[str, object] = {}
        if self._nkey is not None:
            found["signature_cb"] = self._nkey.sign
        if self._jwt:
            found["user_jwt_cb"] = self._jwt.encode
        if self._tls is not None:
            found["tls"] = context = self._tls.context()
            # Our own server is reached by its bind address, which its certificate may not name.
            context.check_hostname = self.server is None
        return found

    def _receive(
        self, subject: str, reply: str, data: bytes, headers: Mapping[str, str] | None, **_: object
    ) -> None:
        if len(self._arrived) >= _MAX_ARRIVED:
            self.dropped += 1
            if self.dropped % 1000 == 1:
                log.warning(
                    "NATS at %s: the receive queue is full; %d messages dropped so far",
                    _without_secrets(self._url),
                    self.dropped,
                )
            return
        headers_json = msgspec.json.encode(dict(headers)) if headers else b""
        self._arrived.append((subject.encode(), [bytes(data), headers_json, reply.encode()]))
        self._wake()

    async def _write_all(self) -> None:
        client = self._client
        assert client is not None
        while not client.is_closed:
            await self._has_unsent.wait()
            self._has_unsent.clear()
            while self._unsent and not client.is_closed:
                if not client.is_connected:
                    self._is_up.clear()
                    await self._is_up.wait()
                subject, frames = self._unsent[0]
                await self._publish(client, subject, frames)
                self._unsent.popleft()
                self._unsent_bytes -= len(frames[0])
            self._is_empty.set()

    async def _publish(self, client: Client, subject: str, frames: Frames) -> None:
        body, headers_json, reply = frames
        headers = msgspec.json.decode(headers_json) if headers_json else None
        try:
            await client.publish(subject, bytes(body), reply.decode(), headers)
        except (
            nats.errors.MaxPayloadError,
            nats.errors.BadSubjectError,
            nats.errors.BadHeaderError,
        ) as error:
            # A retry would fail in the same way.
            self.dropped += 1
            log.warning("dropped a message for %s: NATS refuses it: %s", subject, error)

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            with contextlib.suppress(OSError, nats.errors.Error, TimeoutError):
                if client.is_connected:
                    await client.flush(timeout=1)
                await client.close()

    # --- keys -----------------------------------------------------------------------------------

    def key_of(self, address: Address) -> Key:
        """Return the key that the server has verified for the sender on a subject."""
        return self._keys(address.decode(errors="replace")) if self._keys is not None else ""

    def cut(self, key: Key) -> None:
        """Have our own server close the connections of users that are no longer allowed."""
        if self.server is not None:
            self.server.refresh()

    @property
    def refusal(self) -> str:
        """Why the server refuses this connection, if it gave a reason."""
        if self._is_up.is_set() or not _REFUSED.search(self.last_error):
            return ""
        return f"NATS at {_without_secrets(self._url)} refuses: {self.last_error}"

    # --- callbacks of nats-py -------------------------------------------------------------------

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, ssl.SSLCertVerificationError) and self._tls is not None:
            place = urlsplit(_nats_url(split_addresses(self._url)[0]))
            where = (place.hostname or "", place.port or 0)
            text = await asyncio.to_thread(explain, error, self._tls, *where, is_nats=True)
            error = HandshakeFailed(error.errno, text)
        self._log_error(error)

    async def _on_disconnected(self) -> None:
        self._is_up.clear()
        # Wake the writer: it ends if the connection is closed for good.
        self._has_unsent.set()

    async def _on_reconnected(self) -> None:
        self._is_up.set()
        self._reconnected()

    def _reconnected(self) -> None:
        self.reconnections += 1
        self._arrived.append(_RECONNECTED)
        self._has_unsent.set()
        self._wake()

    def _log_error(self, error: BaseException) -> None:
        message = str(error) or type(error).__name__
        if message != self.last_error:
            log.info("NATS at %s: %s", _without_secrets(self._url), message)
        self.last_error = message


class NatsPeer(Nats):
    """The same for a peer without addresses: its frames begin with the subject."""

    #: It reconnects, and the sides of its dialect repeat unacknowledged messages.
    heals_itself = True

    def drain(self, limit: int) -> Iterable[tuple[Address, list[bytes]]]:
        """Yield what has arrived, the subject as first frame."""
        for subject, frames in super().drain(limit):
            yield b"", [subject, *frames]

    def send(self, address: Address, frames: Frames) -> Sent:
        """Send one message to the subject in its first frame."""
        return super().send(frames[0], frames[1:])


def _nats_url(url: str) -> str:
    return "nats://" + url.removeprefix("tcp://") if url.startswith("tcp://") else url


def _without_secrets(url: str) -> str:
    """Return the endpoint without user, password or token."""
    return "tcp://" + url.partition("://")[2].rpartition("@")[2].rstrip("/")
