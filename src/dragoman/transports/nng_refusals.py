"""Finds out whether a broker refuses this peer's certificate, which NNG does not report.

NNG redials in silence. While a peer with TLS has no connection, this module makes one of its own
now and then. A broker that admits the certificate sends NNG's header; one that refuses it, or whose
own certificate is wrong, does not.
"""

import asyncio
import contextlib
import socket
import ssl
from typing import Any, Final
from urllib.parse import urlsplit

from dragoman.transports.addresses import Addresses
from dragoman.transports.certificate_names import explain
from dragoman.transports.tls import PeerTls

#: The first bytes of a requester and of a replier (SP version 0, protocols 0x30 and 0x31).
_REQUESTER: Final = b"\x00SP\x00\x00\x30\x00\x00"
_REPLIER: Final = b"\x00SP\x00\x00\x31\x00\x00"
#: Seconds without a connection before the first probe, between two probes, and of one probe.
_PATIENCE: Final = 0.5
_PAUSE: Final = 2.0
_LONGEST: Final = 2.0
#: Seconds that `close` waits for a probe that has begun.
_CLOSING: Final = 0.5
_REFUSED: Final = (
    "the broker refuses this certificate: it is unknown there, waits for approval, or has ended"
)


class RefusalProbe:
    """Watches the connections of one NNG socket; `refusal` says why there is none."""

    def __init__(self, addresses: Addresses, tls: PeerTls) -> None:
        self._addresses = addresses
        self._tls = tls
        self._pipes = 0
        self._is_changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._probing: asyncio.Future[str] | None = None
        #: Why the broker refuses this peer; empty if it does not, or is not reachable.
        self.refusal = ""

    def watch(self, watched: Any) -> None:
        """Begin to watch an NNG socket, before it dials. NNG calls back from its own threads."""
        loop = asyncio.get_running_loop()

        def count(change: int) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._count, change)

        watched.add_post_pipe_connect_cb(lambda pipe: count(1))
        watched.add_post_pipe_remove_cb(lambda pipe: count(-1))
        self._task = loop.create_task(self._run(), name="dragoman refusal probe")

    async def close(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._probing is not None:
            # A thread cannot be cancelled. It ends soon, unless the broker is out of reach.
            await asyncio.wait([self._probing], timeout=_CLOSING)

    def _count(self, change: int) -> None:
        self._pipes += change
        if self._pipes:
            self.refusal = ""
        self._is_changed.set()

    async def _run(self) -> None:
        pause = _PATIENCE
        while True:
            self._is_changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if self._pipes else pause):
                    await self._is_changed.wait()
                pause = _PATIENCE
                continue
            loop = asyncio.get_running_loop()
            parts = urlsplit(self._addresses.current)
            where = (parts.hostname or "", parts.port or 0)
            self._probing = loop.run_in_executor(None, probe, where, self._tls)
            found = await asyncio.shield(self._probing)
            if not self._pipes:
                self.refusal = found
            pause = _PAUSE


def probe(where: tuple[str, int], tls: PeerTls) -> str:
    """Make one connection; return why the broker refuses it, or an empty text."""
    try:
        with (
            socket.create_connection(where, _LONGEST) as plain,
            tls.context().wrap_socket(plain, server_hostname=where[0]) as connection,
        ):
            connection.sendall(_REQUESTER)
            return "" if connection.recv(len(_REPLIER)) else _REFUSED
    except (ConnectionResetError, ssl.SSLEOFError):
        return _REFUSED
    except ssl.SSLError as error:
        return explain(error, tls, *where)
    except OSError:
        # Not reachable: that is no refusal.
        return ""
