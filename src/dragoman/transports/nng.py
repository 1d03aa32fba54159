"""The requester's end of NNG for clients and workers: pynng contexts on asyncio.

NNG matches an answer to its request by context; the answer itself has no id. So frames begin with a
*ticket* that stays in the process:

* `send(b"", [ticket, message])`, or `[ticket, message, milliseconds]` with a timeout;
* `drain` yields `(b"", [ticket, answer])`, or `(b"", [ticket])` if no answer came in time.

A ticket has one open request: the same message again is the same request, another message replaces
it. NNG reconnects and resends open requests, so there is nothing to rebuild. `nng_dialer` moves to
the next address if the broker has several.
`RequestWindow` decides how many requests are open at once; the others wait in order.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol
from urllib.parse import urlsplit

import pynng

from dragoman.transports.addresses import Addresses
from dragoman.transports.base import Address, Frames, Sent, pop_messages
from dragoman.transports.nng_dialer import NngDialer
from dragoman.transports.nng_refusals import RefusalProbe
from dragoman.transports.tls import PeerTls

#: NNG's own default; a healthy broker answers sooner.
RESEND_AFTER: Final = 60.0
#: For callers that repeat their requests themselves: NNG resends only after a reconnect.
RESEND_NEVER: Final = 20 * 86_400.0
#: Requests that may wait for the window.
_MAX_WAITING: Final = 100_000
_RECONNECT_MS: Final = (50, 2000)


class RequestWindow(Protocol):
    """Limits the open requests. `sent` numbers each request until it ends."""

    @property
    def has_room(self) -> bool:
        """Whether one more request may be sent."""
        ...

    def sent(self) -> int:
        """Count a sent request; return its number."""
        ...

    def answered(self, number: int) -> None:
        """Count an answer."""
        ...

    def dropped(self, number: int) -> None:
        """Count a request that got no answer in time."""
        ...

    def withdrawn(self, number: int) -> None:
        """Count a request that was replaced or abandoned by the caller."""
        ...


class _UnlimitedWindow:
    """A window without a limit."""

    has_room = True

    def sent(self) -> int:
        return 0

    def answered(self, number: int) -> None:
        pass

    dropped = withdrawn = answered


class NngRequester:
    """One connection with any number of open requests, each on a context of its own."""

    #: NNG reconnects and resends open requests under the same request ID.
    heals_itself = True

    def __init__(
        self,
        endpoint: str,
        window: RequestWindow | None = None,
        *,
        resend_after: float = RESEND_AFTER,
        max_message: int = 32 * 1024 * 1024,
        tls: PeerTls | None = None,
    ) -> None:
        self._tls = tls
        self._endpoint = f"tls+{endpoint}" if tls and endpoint.startswith("tcp:") else endpoint
        self._addresses = Addresses(self._endpoint)
        self._dialer = NngDialer(self._addresses, self._prepare)
        self._window: RequestWindow = window or _UnlimitedWindow()
        self._resend_after = resend_after
        self._max_message = max_message
        self._wake: Callable[[], None] = lambda: None
        self._socket: pynng.Req0 | None = None
        self._idle: list[pynng.Context] = []
        self._open: dict[bytes, tuple[bytes, asyncio.Task[bytes | None]]] = {}
        #: Replaced requests whose tasks have not ended.
        self._ending: set[asyncio.Task[bytes | None]] = set()
        self._waiting: dict[bytes, tuple[bytes, float | None]] = {}
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()
        self._probe: RefusalProbe | None = None

    @property
    def refusal(self) -> str:
        """Why the broker refuses this peer's certificate; empty if it does not."""
        return "" if self._probe is None else self._probe.refusal

    async def open(self, wake: Callable[[], None]) -> str:
        """Start to connect; requests wait for the connection."""
        self._wake = wake
        self._socket = pynng.Req0(
            resend_time=round(self._resend_after * 1000),
            recv_max_size=self._max_message,
            reconnect_time_min=_RECONNECT_MS[0],
            reconnect_time_max=_RECONNECT_MS[1],
            async_backend="asyncio",
        )
        if self._tls is not None:
            self._probe = RefusalProbe(self._addresses, self._tls)
            self._probe.watch(self._socket)
        self._dialer.start(self._socket)
        return self._endpoint

    def move_on(self) -> None:
        """Leave a silent address for the next one; NNG repeats the open requests there."""
        self._dialer.move_on()

    def _prepare(self, address: str) -> None:
        """Expect the certificate of an address before the socket dials it."""
        if self._socket is not None and self._tls is not None:
            self._socket.tls_config = self._config(address, self._tls)

    def _config(self, address: str, tls: PeerTls) -> pynng.TLSConfig:
        return pynng.TLSConfig(
            pynng.TLSConfig.MODE_CLIENT,
            server_name=urlsplit(address).hostname,
            ca_string=tls.authority or None,
            own_key_string=tls.key or None,
            own_cert_string=tls.certificate or None,
            auth_mode=pynng.TLSConfig.AUTH_MODE_REQUIRED,
        )

    def send(self, address: Address, frames: Frames) -> Sent:
        """Open a request as soon as the window has room."""
        if self._socket is None:
            return Sent.GONE
        ticket, message = bytes(frames[0]), bytes(frames[1])
        limit = int(frames[2]) / 1000 if len(frames) > 2 else None
        current = self._open.get(ticket)
        if current is not None:
            if current[0] == message:
                return Sent.YES
            self._ending.add(current[1])
            current[1].cancel()
            del self._open[ticket]
        elif ticket not in self._waiting and len(self._waiting) >= _MAX_WAITING:
            return Sent.FULL
        self._waiting[ticket] = (message, limit)
        self._start()
        return Sent.YES

    def _start(self) -> None:
        """Open waiting requests in order while the window has room."""
        while self._waiting and self._window.has_room and self._socket is not None:
            ticket = next(iter(self._waiting))
            message, limit = self._waiting.pop(ticket)
            task = asyncio.create_task(self._exchange(message, limit))
            self._open[ticket] = (message, task)
            task.add_done_callback(partial(self._ended, ticket, self._window.sent()))

    async def _exchange(self, message: bytes, limit: float | None) -> bytes | None:
        """Send one request; return its answer, or None if there was none in time."""
        try:
            async with asyncio.timeout(limit):
                return await self._ask(message)
        except TimeoutError:
            return None

    async def _ask(self, message: bytes) -> bytes:
        """Use a context for one exchange; reuse it only if it got its answer."""
        assert self._socket is not None
        context = self._idle.pop() if self._idle else self._socket.new_context()
        try:
            await context.asend(message)
            _notice_cancellation()
            answer: bytes = await context.arecv()
        except BaseException:
            context.close()
            raise
        self._idle.append(context)
        return answer

    def _ended(self, ticket: bytes, number: int, task: "asyncio.Task[bytes | None]") -> None:
        """Report the outcome to the window; queue the answer unless the request was replaced."""
        self._ending.discard(task)
        counts = self._open.get(ticket, (b"", None))[1] is task
        if counts:
            del self._open[ticket]
        if task.cancelled() or task.exception() is not None:
            # Replaced, or the socket is closing: not a failure of the broker.
            self._window.withdrawn(number)
        else:
            answer = task.result()
            (self._window.dropped if answer is None else self._window.answered)(number)
            if counts:
                self._arrived.append((b"", [ticket] if answer is None else [ticket, answer]))
        self._start()
        if self._arrived:
            self._wake()

    def drain(self, limit: int) -> list[tuple[Address, list[bytes]]]:
        """Take the answers that have arrived."""
        return pop_messages(self._arrived, limit, self._wake)

    def flush(self) -> None:
        """Do nothing: NNG writes from its own threads."""

    async def close(self) -> None:
        """Cancel open requests, then close the contexts, then the socket."""
        sock, self._socket = self._socket, None
        await self._dialer.close()
        if self._probe is not None:
            await self._probe.close()
        self._waiting.clear()
        tasks = [*self._ending, *(task for _, task in self._open.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for context in self._idle:
            context.close()
        self._idle.clear()
        if sock is not None:
            sock.close()


def _notice_cancellation() -> None:
    """Stop here if the task was cancelled while pynng was waiting.

    pynng swallows a cancellation that comes when its operation has just completed.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
