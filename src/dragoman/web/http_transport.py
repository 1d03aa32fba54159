"""The transport of the HTTP link: uvicorn serves the web application in the broker's event loop.

uvicorn handles no signals here: the broker does.
"""

import asyncio
import contextlib
import logging
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from dragoman.dialects.http.settings import HttpSettings
from dragoman.model.record import Kind, Record
from dragoman.transports.base import Key, is_loopback
from dragoman.transports.origins import ORIGINS
from dragoman.transports.tls import ServerTls, TlsHandshakes, peer_key
from dragoman.web.app import Application, HostMiddleware
from dragoman.web.broker_connection import WebBrokerConnection
from dragoman.web.browser_sessions import BrowserSessions
from dragoman.web.history_routes import OverviewSource
from dragoman.web.identity import (
    PROVEN_KEYS,
    Checks,
    IdentityMiddleware,
    ProvenKeys,
)
from dragoman.web.namespace_requests import NamespaceMiddleware, NamespaceRequests
from dragoman.web.view_routes import ViewSource

#: How long open requests may take when the broker stops, in seconds.
GRACE: Final = 2
#: Largest request head, in bytes.
LARGEST_HEAD: Final = 65_536
#: Bytes of a head that are parsed at a time.
_PIECE: Final = 4096
# uvicorn warns of each request that is not HTTP, in a line without structure. They are counted.
logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
#: Connections accepted in one turn of the event loop, and those that may wait to be accepted.
_AT_ONCE: Final = 8
_BACKLOG: Final = 4096
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class DurableEntry(Protocol):
    """One entry of the ledger."""

    @property
    def record(self) -> Record:
        """Its record."""
        ...


class EmbeddedServer(uvicorn.Server):
    """A uvicorn server that handles no signals and reports when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        self.is_up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


class HeadTimeoutProtocol(H11Protocol):
    """Closes a connection if no complete request head arrives in time, or if it is too large."""

    #: Set by `HttpTransport`, for all its connections.
    patience = 10.0
    most = 1000
    connections_open: "set[HeadTimeoutProtocol]" = set()
    #: Connections whose request has not arrived whole, with the time since when; oldest first.
    unfinished: "dict[HeadTimeoutProtocol, float]" = {}
    #: Connections that gave way and are being closed.
    leaving: "set[HeadTimeoutProtocol]" = set()
    note: Callable[[str], None]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first request head."""
        # Requests hold the keys, not the connection: it holds their state, and such a cycle would
        # keep it, with all that was read on it, until the next garbage collection.
        self.proven = ProvenKeys(peer_key(transport))
        self.app_state = {**self.app_state, PROVEN_KEYS: self.proven}
        self.connections_open.add(self)
        super().connection_made(transport)
        if len(self.connections_open) - len(self.leaving) > self.most and not self._make_room():
            self.limit_concurrency = 0  # its requests get 503
        self.unfinished[self] = self.loop.time()
        self._head_due = self.loop.call_later(self.patience, self._check_head)

    def data_received(self, data: bytes) -> None:
        """Parse a head in pieces: h11 limits only heads that are not complete yet."""
        while data and self._awaits_head():
            super().data_received(data[:_PIECE])
            data = data[_PIECE:]
        if data:
            super().data_received(data)
        if self._has_request():
            self.unfinished.pop(self, None)

    def _has_request(self) -> bool:
        """Return whether a request has arrived whole: its head and its body."""
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def _make_room(self) -> bool:
        """Close the connection that has taken longest to send its request, if there is one.

        A connection that sends a body gives way only if it has had the time of a head. So a
        thousand slow senders cannot keep others out, and nobody loses a request that is complete.
        """
        latest = self.loop.time() - self.patience
        for each, since in self.unfinished.items():
            if each._awaits_head() or since < latest:
                del self.unfinished[each]
                self.leaving.add(each)
                each.transport.abort()
                self.note("gave way before its request was complete")
                return True
        return False

    def _awaits_head(self) -> bool:
        is_idle = self.cycle is None or self.cycle.response_complete
        return is_idle and not self.transport.is_closing()

    def on_response_complete(self) -> None:
        """Start the timer of the next request head."""
        self._head_due.cancel()
        self.unfinished[self] = self.loop.time()
        wait = max(self.patience, self.timeout_keep_alive)
        self._head_due = self.loop.call_later(wait, self._check_head)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self.connections_open.discard(self)
        self.unfinished.pop(self, None)
        self.leaving.discard(self)
        self._head_due.cancel()
        ORIGINS.forget(self.transport)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP, and clear the traceback of the exception.

        h11 raises it from a frame that refers to it. That cycle would keep all frames below, and
        this connection, until the next garbage collection.
        """
        error = sys.exc_info()[1]
        if error is not None:
            error.__traceback__ = None
        self.note("not HTTP")
        super().send_400_response(msg)

    def _check_head(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class HttpTransport(WebBrokerConnection):
    """Listens for HTTP; `attach` connects it to the running broker.

    With `checks` every request must prove a key; with `tls` it is HTTPS, and a certificate proves
    a key. `sessions` are those of browsers. With `requests` the listener has several namespaces,
    and each request goes to the web application of its own. The name of a client, and a worker's
    session, belong to the principal that used it first.
    """

    def __init__(
        self,
        endpoint: str,
        settings: HttpSettings,
        new_id: Callable[[], str],
        *,
        checks: Checks | None = None,
        tls: ServerTls | None = None,
        names: Iterable[str] = (),
        sessions: BrowserSessions | None = None,
        requests: NamespaceRequests | None = None,
    ) -> None:
        """Prepare; `names` are hosts of other nodes, which pass requests through to this one."""
        super().__init__(checks)
        self.checks = checks
        self._requests = requests
        self._names = frozenset(name.lower() for name in names)
        self._tls = tls
        self._sessions = sessions or BrowserSessions(time.time)
        self._connections: set[HeadTimeoutProtocol] = set()
        self._handshakes: TlsHandshakes | None = None
        #: Connections refused before their first request, and requests without identity, by reason.
        self.trouble: Counter[str] = Counter()
        self._place = urlsplit(endpoint)
        self._settings = settings
        self._application = Application(self, settings, new_id, checks, self._sessions)
        self._server: EmbeddedServer | None = None
        self._serving: asyncio.Task[None] | None = None

    def attach(self, view: ViewSource) -> Callable[[Iterable[DurableEntry]], None]:
        """Serve the view of a running broker; return the listener for its durable entries."""
        self._application.view_routes.view = view
        return self._on_durable

    def attach_overview(self, source: OverviewSource) -> None:
        """Serve the dashboard's data."""
        self._application.history_routes.source = source

    def _on_durable(self, entries: Iterable[DurableEntry]) -> None:
        ended = (e.record.job for e in entries if e.record.kind == Kind.ENDED)
        self._application.jobs_ended(ended)

    @property
    def connection_count(self) -> int:
        """Connections that are open."""
        return len(self._connections)

    @property
    def internal_errors(self) -> int:
        """Requests that failed with an unexpected exception."""
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
            {
                "patience": settings.header_timeout,
                "most": settings.connections,
                "connections_open": self._connections,
                "unfinished": dict[HeadTimeoutProtocol, float](),
                "leaving": set[HeadTimeoutProtocol](),
                "note": staticmethod(self._note),
            },
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
            backlog=_AT_ONCE,
            timeout_keep_alive=int(settings.keep_alive),
            timeout_graceful_shutdown=GRACE,
            h11_max_incomplete_event_size=LARGEST_HEAD - _PIECE,
        )
        self._server = server = EmbeddedServer(config)
        self._serving = asyncio.create_task(server.serve([listener]), name="dragoman http")
        await server.is_up.wait()
        listener.listen(_BACKLOG)
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def background_tasks(self) -> "list[asyncio.Task[None]]":
        """Return the task that serves HTTP."""
        return [self._serving] if self._serving is not None else []

    def _secured(
        self, tls: ServerTls, protocol: Callable[..., asyncio.Protocol], listener: int
    ) -> Callable[..., asyncio.Protocol]:
        """Return a factory of protocols that start after the TLS handshake."""
        self._handshakes = handshakes = TlsHandshakes(
            tls.reloading_context(is_optional=True), protocol, self._note
        )
        handshakes.attach(listener)
        return lambda **options: handshakes.protocol(partial(protocol, **options))

    def _note(self, why: str) -> None:
        self.trouble[why] += 1

    def _guarded(self, host: str) -> ASGIApp:
        """Return the application with its middleware; on the loopback it checks the host."""
        app = self.app
        if self._requests is not None:
            app = NamespaceMiddleware(app, self._requests, self._sessions)
        if not is_loopback(host) and not self._settings.hosts:
            return app
        own = {host.lower(), *self._settings.hosts}
        return HostMiddleware(app, _LOCAL_NAMES | self._names | own)

    @property
    def app(self) -> ASGIApp:
        """The application behind the check of the identity."""
        asgi = self._application.asgi
        return IdentityMiddleware(asgi, self._checks, self._sessions, self._note)

    async def close(self) -> None:
        """Answer the waiting requests, then close."""
        self._application.close()
        self._sessions.save()
        if self._handshakes is not None:
            self._handshakes.close()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
        # Some outlive the server: accepted in its last turn, or not read by their peer. The process
        # may go on as a standby, so their peers would wait for answers until they give up.
        for each in list(self._connections):
            each.transport.abort()
        await super().close()

    # --- keys ---------------------------------------------------------------------------------

    def cut(self, key: Key) -> None:
        """Close every connection on which a key was proven, and end its sessions."""
        self._sessions.cut(key)
        for each in [c for c in self._connections if key in c.proven.keys]:
            each.transport.abort()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener
