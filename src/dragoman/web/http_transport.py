"""The door: the transport of the HTTP link. uvicorn serves the application in the broker's loop.

To the loop this is a memory hub like any other: the application's clients and workers are its
peers. Signals are the broker's own matter.
"""

import asyncio
import contextlib
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from dragoman.dialects.base import Address, Frames
from dragoman.dialects.http import wire
from dragoman.security.gate import BUILTIN_KEY
from dragoman.transports.base import Key, is_loopback
from dragoman.transports.memory import MemoryHub
from dragoman.transports.tls import ServerTls, TlsHandshakes, peer_key
from dragoman.web.app import Application, HostMiddleware
from dragoman.web.identity import (
    CALLER,
    PROVEN_KEYS,
    BrowserSessions,
    Checks,
    IdentityMiddleware,
    ProvenKeys,
)
from dragoman.web.problems import Problem
from dragoman.web.settings import WebSettings
from dragoman.web.view_routes import ViewRoutes

#: How long answers that are under way have when the broker goes down.
GRACE: Final = 2
#: Bytes of a request's head; more is refused.
LARGEST_HEAD: Final = 65_536
_WATCH: Final = wire.WATCH.encode()
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class EmbeddedServer(uvicorn.Server):
    """A server that leaves signals alone, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self.is_up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


class HeadTimeoutProtocol(H11Protocol):
    """Closes a connection on which no whole request head arrives in time."""

    #: Set by the door, for all of its connections.
    patience = 10.0
    lines: "set[HeadTimeoutProtocol]" = set()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        # Requests find it in their state. They must not find the connection itself, which has their
        # state: only the collector of cycles would let go of it, and of all that was read on it.
        self.proven = ProvenKeys(peer_key(transport))
        self.app_state = {**self.app_state, PROVEN_KEYS: self.proven}
        self.lines.add(self)
        super().connection_made(transport)
        self._head_due = self.loop.call_later(self.patience, self._check_head)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._head_due.cancel()
        wait = max(self.patience, self.timeout_keep_alive)
        self._head_due = self.loop.call_later(wait, self._check_head)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self.lines.discard(self)
        self._head_due.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, and let go of the fault.

        h11 raises it from a frame that holds it, so that it would hold every frame below, and with
        them this connection, until the collector of cycles comes.
        """
        fault = sys.exc_info()[1]
        if fault is not None:
            fault.__traceback__ = None
        super().send_400_response(msg)

    def _check_head(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class HttpTransport(MemoryHub):
    """Listens for HTTP. `look.view` is to be given before anybody can look.

    With `checks` every request has to prove a key; with `tls` it is HTTPS, and a certificate is a
    proof. A client's line and a worker's session belong to whoever has begun them.
    """

    def __init__(
        self,
        endpoint: str,
        settings: WebSettings,
        new_id: Callable[[], str],
        *,
        checks: Checks | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        super().__init__()
        self._checks = checks
        self._tls = tls
        self._sessions = BrowserSessions(time.monotonic)
        self._lines: set[HeadTimeoutProtocol] = set()
        self._keys: dict[Address, Key] = {}
        self._handshakes: TlsHandshakes | None = None
        #: What was refused before it was a request, by reason.
        self.trouble: Counter[str] = Counter()
        self._place = urlsplit(endpoint)
        self._settings = settings
        self._application = Application(self, settings, new_id, checks, self._sessions)
        self._server: EmbeddedServer | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def look(self) -> ViewRoutes:
        """The routes that look at the broker."""
        return self._application.look

    @property
    def internal_errors(self) -> int:
        """Requests that failed by a fault of our own."""
        return self._application.internal_errors

    async def open(self, wake: Callable[[], None]) -> str:
        """Bind and serve; return the endpoint with its real port."""
        await super().open(wake)
        host, port = self._place.hostname or "127.0.0.1", self._place.port or 0
        listener = _bind(host, port)
        port = listener.getsockname()[1]
        settings = self._settings
        protocol: Any = type(
            "Protocol",
            (HeadTimeoutProtocol,),
            {"patience": settings.header_timeout, "lines": self._lines},
        )
        scheme = "http"
        if self._tls is not None:
            protocol, scheme = self._secured(self._tls, protocol, listener.fileno()), "https"
        config = uvicorn.Config(
            self._guarded(host),
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=settings.connections,
            timeout_keep_alive=int(settings.keep_alive),
            timeout_graceful_shutdown=GRACE,
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )
        self._server = server = EmbeddedServer(config)
        self._serving = asyncio.create_task(server.serve([listener]), name="dragoman http door")
        await server.is_up.wait()
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def _secured(self, tls: ServerTls, protocol: Any, listener: int) -> Any:
        """Return what makes a protocol that begins after a handshake."""
        self._handshakes = handshakes = TlsHandshakes(
            tls.reloading_context(is_optional=True), protocol, self._note
        )
        handshakes.attach(listener)
        return lambda **said: handshakes.protocol(partial(protocol, **said))

    def _note(self, why: str) -> None:
        self.trouble[why] += 1

    def _guarded(self, host: str) -> ASGIApp:
        """Let only requests for this host in while it listens on the loopback."""
        app: ASGIApp = IdentityMiddleware(self._application.asgi, self._checks, self._sessions)
        if not is_loopback(host) and not self._settings.hosts:
            return app
        return HostMiddleware(app, _LOCAL_NAMES | {host.lower()} | frozenset(self._settings.hosts))

    async def close(self) -> None:
        """Answer who waits, then let go."""
        self._application.close()
        if self._handshakes is not None:
            self._handshakes.close()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
        await super().close()

    # --- keys ---------------------------------------------------------------------------------

    def key_of(self, address: Address) -> Key:
        """Return the key of whoever has the line or the session of this address."""
        return BUILTIN_KEY if address == _WATCH else self._keys.get(address, "")

    def cut(self, key: Key) -> None:
        """Close every connection that a key was proved on, and end its sessions."""
        self._sessions.cut(key)
        for line in [line for line in self._lines if key in line.proven.keys]:
            line.transport.abort()

    def arrive(self, address: Address, frames: Frames) -> None:
        """Take a message from a peer, if it comes from the peer's owner."""
        who = CALLER.get()
        if who.key and address != _WATCH:
            self.check(address)
            self._keys[address] = who.key
        super().arrive(address, frames)

    def check(self, address: Address) -> None:
        """Refuse whoever would speak from an address that is somebody else's."""
        who = CALLER.get()
        owner = self._keys.get(address, who.key)
        if self._checks is not None and self._checks.principal_of(owner) != who.principal:
            name = address.decode(errors="replace")
            raise Problem(403, f"{name!r} is the name of somebody else here", "denied")

    def disconnect(self, address: Address) -> None:
        """Let a peer vanish."""
        self._keys.pop(address, None)
        super().disconnect(address)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named: only then does asyncio send small answers without delay.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener
