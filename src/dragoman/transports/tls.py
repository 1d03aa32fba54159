"""TLS for every transport that has it: contexts, handshakes, and the key of a certificate.

The key of a peer is the SHA-256 of its certificate. An authority that the broker trusts (usually
its own) signs the certificates. The handshake proves a certificate; its key decides on admission.
The minimum is TLS 1.2, because NNG's peers have nothing newer.

If the files are replaced, they are read again: later handshakes use the new certificate, and open
connections stay as they are.
"""

import asyncio
import logging
import os
import ssl
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from dragoman.transports.accept_limiter import OVER_LIMIT, AcceptLimiter
from dragoman.transports.base import Key
from dragoman.transports.origins import ORIGINS

#: Seconds that a handshake may take, and how many may run; one more aborts the oldest.
HANDSHAKE_WITHIN: Final = 5.0
HANDSHAKES: Final = 256
log = logging.getLogger(__name__)

#: Minimum seconds between two checks of the files; a handshake triggers a check.
CHECK_EVERY: Final = 0.2
#: Seconds that the peer has to answer TLS's close_notify.
_SHUTDOWN_TIMEOUT: Final = 1.0


class ServerTls:
    """A listener's certificate and key, and the authority it trusts, as files."""

    __slots__ = ("authority", "certificate", "key")

    def __init__(self, certificate: Path, key: Path, authority: Path) -> None:
        self.certificate = certificate
        self.key = key
        self.authority = authority

    def context(self, *, is_optional: bool = False) -> ssl.SSLContext:
        """Make a context that requires a peer certificate, or only asks for it (`is_optional`)."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
        except (OSError, ssl.SSLError) as error:
            names = f"{self.certificate}, {self.key}, {self.authority}"
            raise ValueError(f"cannot use {names} for TLS: {error}") from None
        context.verify_mode = ssl.CERT_OPTIONAL if is_optional else ssl.CERT_REQUIRED
        return context

    def reloading_context(self, *, is_optional: bool = False) -> "ReloadingContext":
        """Make a context that is reloaded when the files change."""
        return ReloadingContext(self, is_optional)

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return a value that changes if a file is replaced; missing files are left out."""
        found = []
        for path in (self.certificate, self.key, self.authority):
            with suppress(OSError):
                state = path.stat()
                found.append((state.st_mtime_ns, state.st_size, state.st_ino))
        return tuple(found)


class ReloadingContext:
    """The context for the next handshake, reloaded when the files change.

    Files are replaced one after the other, so for a moment certificate and key may not match. The
    last good context stays in force until they do.
    """

    def __init__(
        self, tls: ServerTls, is_optional: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tls = tls
        self._is_optional = is_optional
        self._clock = clock
        self._stamp = tls.stamp()
        self._context = tls.context(is_optional=is_optional)
        self._checked_at = clock()

    def __call__(self) -> ssl.SSLContext:
        """Return the current context, after a check of the files if one is due."""
        now = self._clock()
        if now - self._checked_at >= CHECK_EVERY:
            self._checked_at = now
            self._check()
        return self._context

    def _check(self) -> None:
        stamp = self._tls.stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._context = self._tls.context(is_optional=self._is_optional)
        except ValueError as error:
            log.error("%s; the last good certificate stays in force", error)
        else:
            log.info("certificate read again: %s", self._tls.certificate)


class PeerTls:
    """A peer's authority, certificate and key as PEM texts; an empty text means none."""

    __slots__ = ("authority", "certificate", "key")

    def __init__(self, authority: str = "", certificate: str = "", key: str = "") -> None:
        self.authority = authority
        self.certificate = certificate
        self.key = key

    def __repr__(self) -> str:
        """Show nothing secret."""
        return f"PeerTls({'with' if self.certificate else 'without'} a certificate)"

    def context(self) -> ssl.SSLContext:
        """Make a context that trusts the authority, or else those of the system."""
        context = ssl.create_default_context(cadata=self.authority or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate:
            with _as_file(f"{self.certificate}\n{self.key}\n") as path:
                context.load_cert_chain(path)
        return context


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Provide a text as a private file: OpenSSL reads certificates only from files."""
    descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)


def key_of_certificate(der: bytes | None) -> Key:
    """Return the key of a certificate; empty for none."""
    return f"tls:{sha256(der).hexdigest()}" if der else ""


def peer_key(transport: asyncio.BaseTransport) -> Key:
    """Return the key that the peer of an asyncio transport has proved."""
    tls = transport.get_extra_info("ssl_object")
    return "" if tls is None else key_of_certificate(tls.getpeercert(binary_form=True))


class TlsHandshakes:
    """The TLS handshakes of one listener, limited in time and number.

    After the handshake the connection goes to the protocol that `make` returns. `note` is called
    with the reason of each failure. Handshakes run in the broker's own loop, so an `AcceptLimiter`
    blocks addresses that fail too often, once `attach` has set the listening socket.
    """

    def __init__(
        self,
        context: Callable[[], ssl.SSLContext],
        make: Callable[[], asyncio.Protocol],
        note: Callable[[str], None],
        *,
        within: float = HANDSHAKE_WITHIN,
        at_once: int = HANDSHAKES,
    ) -> None:
        self._context = context
        self._make = make
        self._note = note
        self._within = within
        self._at_once = at_once
        self._limiter = AcceptLimiter(lambda: note(OVER_LIMIT))
        self._under_way: OrderedDict[asyncio.Transport, None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def attach(self, fd: int) -> None:
        """Set the listening socket, so that the limiter can block connections there."""
        self._limiter.attach(fd)

    def protocol(self, make: Callable[[], asyncio.Protocol] | None = None) -> asyncio.Protocol:
        """Return the protocol for a new connection; `make` replaces the default factory."""
        return _BeforeHandshake(self, make or self._make)

    def begin(self, transport: asyncio.Transport, make: Callable[[], asyncio.Protocol]) -> None:
        """Start the handshake of a new connection."""
        if self._is_closed:
            # It was accepted in the turn in which the listener closed.
            transport.abort()
            return
        transport.pause_reading()
        self._limiter.arrived()
        self._under_way[transport] = None
        if len(self._under_way) > self._at_once:
            oldest, _ = self._under_way.popitem(last=False)
            self._failed(oldest, "gave way in its handshake")
            oldest.abort()
        task = asyncio.get_running_loop().create_task(self._handshake(transport, make))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handshake(
        self, transport: asyncio.Transport, make: Callable[[], asyncio.Protocol]
    ) -> None:
        waiting = _AfterHandshake()
        try:
            tls = await asyncio.get_running_loop().start_tls(
                transport,
                waiting,
                self._context(),
                server_side=True,
                ssl_handshake_timeout=self._within,
                ssl_shutdown_timeout=_SHUTDOWN_TIMEOUT,
            )
        except (OSError, ssl.SSLError) as error:
            if transport in self._under_way:
                self._failed(transport, reason(error))
            return
        finally:
            self._under_way.pop(transport, None)
        if tls is not None:
            waiting.hand_over(tls, make())

    def _failed(self, transport: asyncio.Transport, why: str) -> None:
        self._note(why)
        name = ORIGINS.address_of(transport)
        self._limiter.failed(name[0] if name else "")

    def close(self) -> None:
        """Abort the handshakes that are under way, and connections that come later."""
        self._is_closed = True
        self._limiter.close()
        for transport in self._under_way:
            transport.abort()
        self._under_way.clear()
        for task in self._tasks:
            task.cancel()


class _BeforeHandshake(asyncio.Protocol):
    """A connection before its handshake."""

    def __init__(self, handshakes: TlsHandshakes, make: Callable[[], asyncio.Protocol]) -> None:
        self._handshakes = handshakes
        self._make = make

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._handshakes.begin(transport, self._make)


class _AfterHandshake(asyncio.Protocol):
    """Buffers bytes that arrive between the handshake and the start of the real protocol."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._has_ended = False

    def data_received(self, data: bytes) -> None:
        self._data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended = True

    def hand_over(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        """Pass the connection and the buffered bytes to its protocol."""
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._data:
            protocol.data_received(bytes(self._data))
        if self._has_ended:
            protocol.connection_lost(None)


def reason(error: Exception) -> str:
    """Return a short reason for a failed handshake, to count it by."""
    code = getattr(error, "reason", "") or ""
    if "HTTP_REQUEST" in code or "WRONG_VERSION_NUMBER" in code or "UNEXPECTED_MESSAGE" in code:
        return "no TLS"
    if "CERTIFICATE" in code:
        return "no certificate of ours"
    return "handshake broken off"
