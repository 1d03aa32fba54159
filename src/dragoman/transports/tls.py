"""TLS for every transport that has it: contexts, and the key that a certificate is.

The key of a peer is the SHA-256 of its certificate. Certificates come from an authority that the
broker trusts (usually its own), and are proved in the handshake; whether such a certificate may
come in is decided by its key. At least TLS 1.2, because NNG's peers have nothing newer.

Files that are replaced are read again: handshakes that begin afterwards see the new certificate,
and connections that are there go on as they are.
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
from typing import Any, Final

from dragoman.transports.accept_limiter import OVER_LIMIT, AcceptLimiter
from dragoman.transports.base import Key

#: How long a handshake may take, and how many may be under way; the oldest gives way to one more.
HANDSHAKE_WITHIN: Final = 5.0
HANDSHAKES: Final = 256
log = logging.getLogger(__name__)

#: How often files are looked at, in seconds, while handshakes come.
LOOK_EVERY: Final = 0.2
#: How long the other end has to say good-bye when a connection is closed.
_GOOD_BYE: Final = 1.0


class ServerTls:
    """What a listener proves itself with, and whom it believes."""

    __slots__ = ("authority", "certificate", "key")

    def __init__(self, certificate: Path, key: Path, authority: Path) -> None:
        self.certificate = certificate
        self.key = key
        self.authority = authority

    def context(self, *, is_optional: bool = False) -> ssl.SSLContext:
        """Make a context that asks for a certificate; with `is_optional` none will do as well."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
        except (OSError, ssl.SSLError) as error:
            names = f"{self.certificate}, {self.key}, {self.authority}"
            raise ValueError(f"no TLS with {names}: {error}") from None
        context.verify_mode = ssl.CERT_OPTIONAL if is_optional else ssl.CERT_REQUIRED
        return context

    def reloading_context(self, *, is_optional: bool = False) -> "ReloadingContext":
        """Make a context that follows the files."""
        return ReloadingContext(self, is_optional)

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return what changes when a file is replaced; shorter while one is not there."""
        found = []
        for path in (self.certificate, self.key, self.authority):
            with suppress(OSError):
                state = path.stat()
                found.append((state.st_mtime_ns, state.st_size, state.st_ino))
        return tuple(found)


class ReloadingContext:
    """The context for the next handshake: of the files as they are, or as they were when good.

    Files are replaced one after the other, so for a moment a certificate and a key may not belong
    together: then what was good stays in force until they do.
    """

    def __init__(
        self, tls: ServerTls, is_optional: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tls = tls
        self._is_optional = is_optional
        self._clock = clock
        self._stamp = tls.stamp()
        self._context = tls.context(is_optional=is_optional)
        self._looked_at = clock()

    def __call__(self) -> ssl.SSLContext:
        """Return it."""
        now = self._clock()
        if now - self._looked_at >= LOOK_EVERY:
            self._looked_at = now
            self._look()
        return self._context

    def _look(self) -> None:
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
    """What a peer proves itself with and whom it believes, as PEM texts; none is an empty text."""

    __slots__ = ("authority", "certificate", "key")

    def __init__(self, authority: str = "", certificate: str = "", key: str = "") -> None:
        self.authority = authority
        self.certificate = certificate
        self.key = key

    def __repr__(self) -> str:
        """Show nothing secret."""
        return f"PeerTls({'with' if self.certificate else 'without'} a certificate)"

    def context(self) -> ssl.SSLContext:
        """Make a context that believes the authority, or else those of the system."""
        context = ssl.create_default_context(cadata=self.authority or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate:
            with _as_file(f"{self.certificate}\n{self.key}\n") as path:
                context.load_cert_chain(path)
        return context


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Lend a text as a file of one's own: OpenSSL reads certificates from nowhere else."""
    descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)


def key_of_certificate(der: bytes | None) -> Key:
    """Return the key that a certificate is; empty for none."""
    return f"tls:{sha256(der).hexdigest()}" if der else ""


def proved(transport: Any) -> Key:
    """Return the key that the other end of an asyncio transport has proved."""
    tls = transport.get_extra_info("ssl_object")
    return "" if tls is None else key_of_certificate(tls.getpeercert(binary_form=True))


class TlsHandshakes:
    """The TLS handshakes of one listener: bounded in time and number, so that none is a burden.

    A connection is nobody's until its handshake is done; then the protocol that was made for it
    gets it. Reasons of those that failed go to `note`. They happen in the broker's own loop, so
    those who fail too often are kept away, once it is known where (`attach`).
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
        self._doorstep = AcceptLimiter(lambda: note(OVER_LIMIT))
        self._under_way: OrderedDict[asyncio.Transport, None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def attach(self, fd: int) -> None:
        """Know the listening socket, to turn strangers away there."""
        self._doorstep.attach(fd)

    def protocol(self, make: Callable[[], asyncio.Protocol] | None = None) -> asyncio.Protocol:
        """Make what asyncio wants for a new connection; `make` if this one needs another."""
        return _BeforeHandshake(self, make or self._make)

    def begin(self, transport: asyncio.Transport, make: Callable[[], asyncio.Protocol]) -> None:
        """Shake hands with whoever has connected."""
        transport.pause_reading()
        self._doorstep.arrived()
        self._under_way[transport] = None
        if len(self._under_way) > self._at_once:
            oldest, _ = self._under_way.popitem(last=False)
            self._failed(oldest, "gave way in its handshake")
            oldest.abort()
        task = asyncio.get_running_loop().create_task(self._shake(transport, make))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _shake(
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
                ssl_shutdown_timeout=_GOOD_BYE,
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
        name = transport.get_extra_info("peername")
        self._doorstep.failed(str(name[0]) if name else "")

    def close(self) -> None:
        """Break off what is under way."""
        self._doorstep.close()
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
    """Keeps what arrives between the handshake and the protocol that it is meant for."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._has_ended = False

    def data_received(self, data: bytes) -> None:
        self._data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended = True

    def hand_over(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        """Let the protocol go on from here."""
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._data:
            protocol.data_received(bytes(self._data))
        if self._has_ended:
            protocol.connection_lost(None)


def reason(error: Exception) -> str:
    """Name why a handshake failed, in few words that are worth counting."""
    words = getattr(error, "reason", "") or ""
    if "HTTP_REQUEST" in words or "WRONG_VERSION_NUMBER" in words or "UNEXPECTED_MESSAGE" in words:
        return "no TLS"
    if "CERTIFICATE" in words:
        return "no certificate of ours"
    return "handshake broken off"
