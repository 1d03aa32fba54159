"""A worker's registration at its broker: join, heartbeats, join again.

This module owns the connection and handles the notices about registration. It hands notices about
jobs to its caller, which answers with `send`. Everything here runs in the worker's loop.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

import structlog

from dragoman.dialects.base import Frames
from dragoman.dialects.peer_sides import Alive, Dismissed, SendNow, WorkerNotice, WorkerSide
from dragoman.sdk.connection import BrokerConnection
from dragoman.transports.base import Transport

log = structlog.get_logger("dragoman.worker")

_TICK: Final = 0.25
#: Seconds before the second attempt of a dismissed worker; each further pause is twice as long.
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 30.0
#: A session of this many seconds counts as accepted: the next dismissal begins without a pause.
_LASTING: Final = 10.0


class Membership:
    """Keeps one worker registered while the block of `joined` lasts.

    `handle` gets every notice about a job. `is_wanted` says whether to register again after a
    reconnect. `on_change` is called with whether the broker has confirmed the registration.
    """

    def __init__(
        self,
        name: str,
        side: WorkerSide,
        make: Callable[[], Transport],
        handle: Callable[[WorkerNotice], None],
        is_wanted: Callable[[], bool],
        on_change: Callable[[bool], None],
    ) -> None:
        self._name = name
        self._side = side
        self._make = make
        self._handle = handle
        self._is_wanted = is_wanted
        self._on_change = on_change
        self._is_confirmed = False
        self._connection = BrokerConnection(self._make_transport, self._receive)
        #: The current transport. Some transports have more methods, such as `keep_beating`.
        self.transport: Any = None
        self._rejoining: asyncio.Task[None] | None = None
        #: Dismissals in a row, without a lasting session between them.
        self._dismissals = 0
        self._joined_at = float("-inf")
        self._reason = ""
        #: The heartbeat interval that the proxy has; 0 before it has one.
        self._proxy_interval = 0.0

    @contextlib.asynccontextmanager
    async def joined(self) -> AsyncIterator[None]:
        """Stay registered until the block ends, then deregister."""
        keeper = asyncio.create_task(self._keep(), name="dragoman worker keeper")
        try:
            await self._connection.open()
            self._join()
            yield
        finally:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
            self.send(self._side.leave())
            await self._connection.close()

    def send(self, messages: Iterable[Frames]) -> None:
        """Send messages of the side, in order."""
        self._connection.send(messages)

    def silent_for(self, now: float) -> float:
        """Return how many seconds the broker has been silent; `now` is monotonic time."""
        return now - self._connection.heard_at

    def renew(self, reason: str) -> None:
        """Register again on a new socket. A call during a running attempt does nothing."""
        if self._rejoining is not None and not self._rejoining.done():
            return
        pause = self._pause()
        say = log.info if pause == 0 else log.warning
        say("worker registers again", worker=self._name, reason=reason, pause_s=pause)
        self._rejoining = asyncio.get_running_loop().create_task(self._rejoin(pause))

    def _pause(self) -> float:
        """Return how long to wait before the next attempt: a refused worker must not hammer."""
        if asyncio.get_running_loop().time() - self._joined_at >= _LASTING:
            self._dismissals = 0
        if self._dismissals == 0:
            return 0.0
        return min(_FIRST_PAUSE * (1 << min(self._dismissals - 1, 16)), _LONGEST_PAUSE)

    async def _rejoin(self, pause: float = 0.0) -> None:
        await asyncio.sleep(pause)
        await self._connection.rebuild()
        if self._is_wanted():
            self._join()

    def _join(self) -> None:
        self._joined_at = asyncio.get_running_loop().time()
        self._connection.send_first(self._side.join())
        self._note_confirmation()
        self._proxy_interval = 0.0
        self._set_proxy_interval()

    def _note_confirmation(self) -> None:
        if self._side.is_joined:
            self._reason = ""
        if self._is_confirmed != self._side.is_joined:
            self._is_confirmed = self._side.is_joined
            self._on_change(self._is_confirmed)

    @property
    def refusal(self) -> str:
        """Why the broker refused this worker's key or registration; empty if it did not."""
        refused = str(getattr(self._side, "refusal", ""))
        # One dismissal is no refusal: the broker may have restarted.
        dismissed = self._reason if self._dismissals > 1 else ""
        return self._connection.refusal or refused or dismissed

    @property
    def connection_hint(self) -> str:
        """The likely reason why the broker does not answer; empty if unknown."""
        return self._connection.connection_hint

    def _make_transport(self) -> Transport:
        self.transport = transport = self._make()
        return transport

    # --- heartbeats ---------------------------------------------------------------------------

    def _set_proxy_interval(self) -> None:
        """Tell the heartbeat proxy the side's interval; the broker may change it."""
        keep_beating = getattr(self.transport, "keep_beating", None)
        if keep_beating is None or self._proxy_interval == self._side.beat_every:
            return
        self._proxy_interval = self._side.beat_every
        keep_beating(self._proxy_interval, [list(frames) for frames in self._side.beat()])

    async def _keep(self) -> None:
        """Send heartbeats; reconnect if the broker is silent for longer than `hold`."""
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + self._side.beat_every
        while True:
            tick, slept_at = min(_TICK, self._side.beat_every / 2), loop.time()
            await asyncio.sleep(tick)
            now = loop.time()
            # A task that holds the interpreter lock stops this loop, and the broker's messages
            # wait unread. That time is not silence of the broker. The tick itself counts, so a
            # worker whose loop is always late still finds a dead broker, only later.
            if now - slept_at > 2 * tick:
                self._connection.discount_silence(now - slept_at - tick)
            if now >= beat_at:
                if not hasattr(self.transport, "keep_beating"):
                    self.send(self._side.beat())
                self._confirm_results()
                beat_at = now + self._side.beat_every
            hold = self._side.hold
            if hold is not None and self.silent_for(now) >= hold:
                reason = self._connection.refusal or f"no message for {hold:g} s"
                log.warning("worker lost its broker, reconnects", worker=self._name, reason=reason)
                await self._rejoin()

    def _confirm_results(self) -> None:
        """Ask about finished jobs whose results may be lost, if the dialect can ask."""
        confirm = getattr(self._side, "confirm", None)
        if confirm is not None:
            self.send(confirm())

    # --- notices of the broker ----------------------------------------------------------------

    def _receive(self, frames: list[bytes]) -> None:
        for notice in self._side.receive(frames):
            handler = _HANDLERS.get(type(notice))
            if handler is None:
                self._handle(notice)
            else:
                handler(self, notice)
        self._note_confirmation()
        self._set_proxy_interval()

    def _dismissed(self, notice: Dismissed) -> None:
        if self._rejoining is None or self._rejoining.done():
            self.renew(notice.reason)
            self._dismissals += 1
            self._reason = notice.reason

    def _reply(self, reply: SendNow) -> None:
        self.send([reply.frames])

    def _alive(self, notice: Alive) -> None:
        """Do nothing: the connection has noted when the message came."""


_HANDLERS: Final[dict[type[WorkerNotice], Callable[[Membership, Any], None]]] = {
    Dismissed: Membership._dismissed,
    SendNow: Membership._reply,
    Alive: Membership._alive,
}
