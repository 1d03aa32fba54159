"""The requester's end of NNG for client and worker shells: pynng contexts on asyncio.

NNG matches an answer to its request by context, and the answer itself names nothing. So frames
begin with a *ticket* that stays in the process:

* `send(b"", [ticket, message])`, or `[ticket, message, milliseconds]` for how long to wait;
* `drain` yields `(b"", [ticket, answer])`, or `(b"", [ticket])` when no answer came in time.

A ticket has one open request: the same message again is the same request, another message takes
its place. NNG reconnects by itself and sends what is open again, so there is nothing to rebuild.
How many requests are open at once is the gate's decision (see `RequestWindow`); the others wait
in order.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol
from urllib.parse import urlsplit

import pynng

from dragoman.transports.base import Address, Frames, Sent, take
from dragoman.transports.tls import PeerTls

#: NNG's own default; long enough that a healthy broker has answered.
RESEND_AFTER: Final = 60.0
#: For requests that are repeated by whoever asked: only a reconnect makes NNG send them again.
RESEND_NEVER: Final = 20 * 86_400.0
#: Requests that may wait for the gate.
_MAX_WAITING: Final = 100_000
_RECONNECT_MS: Final = (50, 2000)


class RequestWindow(Protocol):
    """Decides how many requests may be open. Each has a number from `sent` until it ends."""

    @property
    def has_room(self) -> bool:
        """Whether one more may be sent."""
        ...

    def sent(self) -> int:
        """Count one that is sent, and number it."""
        ...

    def answered(self, number: int) -> None:
        """Count an answer."""
        ...

    def dropped(self, number: int) -> None:
        """Count one that got no answer in time."""
        ...

    def withdrawn(self, number: int) -> None:
        """Count one that was replaced or given up here."""
        ...


class _Open:
    """A gate that is always open."""

    has_room = True

    def sent(self) -> int:
        return 0

    def answered(self, number: int) -> None:
        pass

    dropped = withdrawn = answered


class NngRequester:
    """One connection with any number of open requests, each on a context of its own."""

    #: NNG reconnects, and sends what is open again under the same request ID: nobody need rebuild.
    heals_itself = True

    def __init__(
        self,
        endpoint: str,
        gate: RequestWindow | None = None,
        *,
        resend_after: float = RESEND_AFTER,
        max_message: int = 32 * 1024 * 1024,
        tls: PeerTls | None = None,
    ) -> None:
        self._tls = tls
        self._endpoint = f"tls+{endpoint}" if tls and endpoint.startswith("tcp:") else endpoint
        self._gate: RequestWindow = gate or _Open()
        self._resend_after = resend_after
        self._max_message = max_message
        self._wake: Callable[[], None] = lambda: None
        self._socket: pynng.Req0 | None = None
        self._idle: list[pynng.Context] = []
        self._open: dict[bytes, tuple[bytes, asyncio.Task[bytes | None]]] = {}
        #: Replaced requests that are still winding up.
        self._ending: set[asyncio.Task[bytes | None]] = set()
        self._waiting: dict[bytes, tuple[bytes, float | None]] = {}
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()

    async def open(self, wake: Callable[[], None]) -> str:
        """Start to connect; requests wait until that has come about."""
        self._wake = wake
        self._socket = pynng.Req0(
            resend_time=round(self._resend_after * 1000),
            recv_max_size=self._max_message,
            reconnect_time_min=_RECONNECT_MS[0],
            reconnect_time_max=_RECONNECT_MS[1],
            async_backend="asyncio",
        )
        if self._tls is not None:
            self._socket.tls_config = self._config(self._tls)
        self._socket.dial(self._endpoint, block=False)
        return self._endpoint

    def _config(self, tls: PeerTls) -> pynng.TLSConfig:
        return pynng.TLSConfig(
            pynng.TLSConfig.MODE_CLIENT,
            server_name=urlsplit(self._endpoint).hostname,
            ca_string=tls.authority or None,
            own_key_string=tls.key or None,
            own_cert_string=tls.certificate or None,
            auth_mode=pynng.TLSConfig.AUTH_MODE_REQUIRED,
        )

    def send(self, address: Address, frames: Frames) -> Sent:
        """Open a request, as soon as the gate allows."""
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
        """Open what waits, in order, while the gate allows."""
        while self._waiting and self._gate.has_room and self._socket is not None:
            ticket = next(iter(self._waiting))
            message, limit = self._waiting.pop(ticket)
            task = asyncio.create_task(self._exchange(message, limit))
            self._open[ticket] = (message, task)
            task.add_done_callback(partial(self._ended, ticket, self._gate.sent()))

    async def _exchange(self, message: bytes, limit: float | None) -> bytes | None:
        """Send one request; return its answer, or None when there was none in time."""
        try:
            async with asyncio.timeout(limit):
                return await self._ask(message)
        except TimeoutError:
            return None

    async def _ask(self, message: bytes) -> bytes:
        """Use a context for one exchange; only one that got its answer is used again."""
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
        """Tell the gate what became of a request, and pass its answer on if it still counts."""
        self._ending.discard(task)
        counts = self._open.get(ticket, (b"", None))[1] is task
        if counts:
            del self._open[ticket]
        if task.cancelled() or task.exception() is not None:
            # Replaced, or the socket is closing: neither is the broker's doing.
            self._gate.withdrawn(number)
        else:
            answer = task.result()
            (self._gate.dropped if answer is None else self._gate.answered)(number)
            if counts:
                self._arrived.append((b"", [ticket] if answer is None else [ticket, answer]))
        self._start()
        if self._arrived:
            self._wake()

    def drain(self, limit: int) -> list[tuple[Address, list[bytes]]]:
        """Take the answers that have arrived."""
        return take(self._arrived, limit, self._wake)

    def flush(self) -> None:
        """Nothing is gathered here: NNG has its own threads for that."""

    async def close(self) -> None:
        """Give up what is open, then let go of the contexts, then of the socket."""
        sock, self._socket = self._socket, None
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
