"""NATS, for the broker and for workers: subjects as addresses, one connection, order kept.

What arrives on the subscriptions is drained as `(subject, [body, headers, reply])`: headers are
compact JSON of the NATS headers, empty when there are none; reply is the reply subject, empty when
there is none. When nobody listens where something with a reply subject was sent, the server's
answer arrives like any message, with an empty body and `{"Status":"503"}` as headers. After a
reconnection `(b"", [b"", b"", b""])` arrives: whatever was under way may be lost.

`send(subject, frames)` takes the same three frames. A peer without addresses of its own uses
`NatsPeer`, whose frames are `[subject, body, headers, reply]` both ways.

The connection is made, and made again, in the background; what is sent meanwhile waits, bounded.
nats-py hands each message over in its read loop, before any queue of its own, so messages arrive
in the order in which they were on the wire, whatever subscription they came by.
"""

import asyncio
import contextlib
import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec
import nats.errors
from nats.aio.client import Client

from dragoman.transports.base import Address, Frames, Key, Sent
from dragoman.transports.nkeys import Nkey
from dragoman.transports.tls import PeerTls

log = logging.getLogger(__name__)

#: Messages that may wait to be drained; what comes beyond that is dropped, counted and logged.
_WAITING: Final = 200_000
#: Messages and bytes that may wait to be sent before `send` says that it is full.
_UNSENT: Final = 100_000
_UNSENT_BYTES: Final = 256 * 1024 * 1024
#: Seconds between attempts to connect.
_RECONNECT: Final = 0.25
_OPTIONS: Final[dict[str, Any]] = {
    "max_reconnect_attempts": -1,
    "reconnect_time_wait": _RECONNECT,
    "ping_interval": 10,
}
#: How long what was sent may take to leave when the transport closes.
_LINGER: Final = 1.0
#: How long the broker's own connection may take before opening fails.
_PATIENCE: Final = 30.0

_REFUSED: Final = re.compile(r"(?i)authorization|permissions|certificate|tls|ssl")
_RECONNECTED: Final = (b"", [b"", b"", b""])


class SupervisedServer(Protocol):
    """A NATS server that is started with the transport and stopped with it."""

    async def start(self) -> str:
        """Start it and return its URL."""
        ...

    async def stop(self) -> None:
        """Stop it."""
        ...

    @property
    def nkey(self) -> Nkey | None:
        """What its owner proves to it; None: it asks for nothing."""
        ...

    def refresh(self) -> None:
        """Let it know at once who may use it now."""
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
        nkey: Nkey | None = None,
        jwt: str = "",
        tls: PeerTls | None = None,
        keys: Callable[[str], Key] | None = None,
        **options: Any,
    ) -> None:
        """Prepare a connection.

        Args:
            url: `nats://`, `tls://` or `tcp://`, with a token or user if the server asks for one;
                not used with a supervised server.
            subscriptions: the subjects to subscribe to, before anything is sent.
            name: what the server shows for this connection.
            server: a server to start and stop together with the connection.
            connects_in_background: `open` returns at once, whether the server is there or not.
            nkey: what to prove to the server; a supervised one has its own.
            jwt: goes with the nkey where an operator has signed one.
            tls: whom to believe; without it nothing is encrypted.
            keys: returns the key that a server has proved of whoever speaks on a subject.
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
        #: Messages that were thrown away: arrived too fast, or were refused by NATS.
        self.dropped = 0
        self.reconnections = 0
        self.last_error = ""

    # --- the interface of transports ------------------------------------------------------------

    async def open(self, wake: Callable[[], None]) -> str:
        """Connect and subscribe; return the endpoint as `tcp://host:port`."""
        self._wake = wake
        if self.server is not None:
            self._url = await self.server.start()
            self._nkey = self.server.nkey or self._nkey
        self._runner = asyncio.create_task(self._run(), name=f"dragoman nats {self._name}")
        if not self._is_patient:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._is_up.wait()
            except TimeoutError:
                await self.close()
                words = f"no NATS server at {_shown(self._url)}: {self.last_error}"
                raise ConnectionError(words) from None
        return _shown(self._url)

    def drain(self, limit: int) -> Iterable[tuple[Address, list[bytes]]]:
        """Yield at most `limit` messages that have arrived."""
        arrived = self._arrived
        for _ in range(min(limit, len(arrived))):
            yield arrived.popleft()
        if arrived:
            self._wake()

    def send(self, address: Address, frames: Frames) -> Sent:
        """Send one message to a subject, without waiting."""
        if len(self._unsent) >= _UNSENT or self._unsent_bytes >= _UNSENT_BYTES:
            return Sent.FULL
        if self._is_closed.is_set():
            return Sent.GONE
        self._unsent.append((address.decode(), frames))
        self._unsent_bytes += len(frames[0])
        return Sent.YES

    def flush(self) -> None:
        """Push out what was sent."""
        if self._unsent:
            self._has_unsent.set()

    async def close(self) -> None:
        """Let what was sent leave, then let go; stop the server that was started here."""
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
        """Keep a connection, whatever becomes of it, and write what is to be sent."""
        while True:
            try:
                await self._connect()
                await self._write_all()
            except (OSError, nats.errors.Error, TimeoutError) as error:
                self._note(error)
            self._is_up.clear()
            await self._disconnect()
            await asyncio.sleep(_RECONNECT)

    async def _connect(self) -> None:
        was_there = self._client is not None or self.reconnections > 0
        client = self._client = Client()
        # Called for every message in the read loop; what is not a message ends there.
        client.msg_class = self._take  # type: ignore[assignment]
        if self._nkey is not None:
            # With a seed of its own nats-py would need another library for the same signature.
            client._public_nkey = self._nkey.public
            client._auth_configured = True
        await client.connect(
            servers=[_nats_url(self._url)],
            name=self._name,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            closed_cb=self._on_disconnected,
            **{**_OPTIONS, **self._proofs(), **self._options},
        )
        for subject in self._subscriptions:
            await client.subscribe(subject)
        # A round trip: the server has the subscriptions before anything is sent.
        await client.flush()
        self._is_up.set()
        if was_there:
            self._reconnected()

    def _proofs(self) -> dict[str, Any]:
        """Return what nats-py needs to prove who we are, and to see who the server is."""
        found: dict[str, Any] = {}
        if self._nkey is not None:
            found["signature_cb"] = self._nkey.sign
        if self._jwt:
            found["user_jwt_cb"] = self._jwt.encode
        if self._tls is not None:
            found["tls"] = context = self._tls.context()
            # A server of our own is reached by whatever address it was given.
            context.check_hostname = self.server is None
        return found

    def _take(self, subject: str, reply: str, data: bytes, headers: Any, **_: Any) -> None:
        if len(self._arrived) >= _WAITING:
            self.dropped += 1
            if self.dropped % 1000 == 1:
                log.warning("too many messages from NATS wait; %d dropped so far", self.dropped)
            return
        said = msgspec.json.encode(dict(headers)) if headers else b""
        self._arrived.append((subject.encode(), [bytes(data), said, reply.encode()]))
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
        body, said, reply = frames
        headers = msgspec.json.decode(said) if said else None
        try:
            await client.publish(subject, bytes(body), reply.decode(), headers)
        except (
            nats.errors.MaxPayloadError,
            nats.errors.BadSubjectError,
            nats.errors.BadHeaderError,
        ) as error:
            # No other attempt would fare better.
            self.dropped += 1
            log.warning("NATS does not take a message for %s: %s", subject, error)

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            with contextlib.suppress(OSError, nats.errors.Error, TimeoutError):
                if client.is_connected:
                    await client.flush(timeout=1)
                await client.close()

    # --- keys -----------------------------------------------------------------------------------

    def key_of(self, address: Address) -> Key:
        """Return the key that the server has proved of whoever speaks on a subject."""
        return self._keys(address.decode(errors="replace")) if self._keys is not None else ""

    def cut(self, key: Key) -> None:
        """Have a server of our own close every connection of a key."""
        if self.server is not None:
            self.server.refresh()

    @property
    def refusal(self) -> str:
        """Why the server does not let us in, if it said so."""
        if self._is_up.is_set() or not _REFUSED.search(self.last_error):
            return ""
        return f"NATS at {_shown(self._url)} refuses: {self.last_error}"

    # --- what nats-py reports -------------------------------------------------------------------

    async def _on_error(self, error: Exception) -> None:
        self._note(error)

    async def _on_disconnected(self) -> None:
        self._is_up.clear()
        # Let the writer see that the connection is gone, should it be gone for good.
        self._has_unsent.set()

    async def _on_reconnected(self) -> None:
        self._is_up.set()
        self._reconnected()

    def _reconnected(self) -> None:
        self.reconnections += 1
        self._arrived.append(_RECONNECTED)
        self._has_unsent.set()
        self._wake()

    def _note(self, error: BaseException) -> None:
        words = str(error) or type(error).__name__
        if words != self.last_error:
            log.info("NATS at %s: %s", _shown(self._url), words)
        self.last_error = words


class NatsPeer(Nats):
    """The same for a peer without addresses: its frames begin with the subject."""

    #: It reconnects, and the sides of its dialect repeat what was not acked.
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


def _shown(url: str) -> str:
    """Return the endpoint without what is secret in it."""
    return "tcp://" + url.partition("://")[2].rpartition("@")[2].rstrip("/")
