"""Dials the addresses of a broker for an NNG socket, one at a time.

NNG redials one address by itself, and sends requests to all addresses that it dials. A broker with
several addresses needs one connection, at the next address when it is lost.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

import pynng

from dragoman.transports.addresses import Addresses

#: Seconds between two addresses.
_PAUSE: Final = 0.1


class NngDialer:
    """Keeps one connection of a socket; `prepare` is called with each address before it dials."""

    def __init__(self, addresses: Addresses, prepare: Callable[[str], None]) -> None:
        self._addresses = addresses
        self._prepare = prepare
        self._pipes = 0
        self._changed = asyncio.Event()
        self._is_leaving = False
        self._task: asyncio.Task[None] | None = None

    def start(self, dialling: "pynng.Socket[Any] | Any") -> None:
        """Begin to dial. With one address, NNG does it alone."""
        if len(self._addresses.all) == 1:
            self._dial(dialling)
            return
        loop = asyncio.get_running_loop()

        def count(change: int) -> None:
            # NNG calls back from its own threads, also after the loop has ended.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._count, change)

        dialling.add_post_pipe_connect_cb(lambda pipe: count(1))
        dialling.add_post_pipe_remove_cb(lambda pipe: count(-1))
        self._task = loop.create_task(self._keep_dialled(dialling), name="dragoman NNG dialer")

    def move_on(self) -> None:
        """Leave the current address."""
        self._is_leaving = True
        self._changed.set()

    async def close(self) -> None:
        """Stop. The socket closes its connections."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _count(self, change: int) -> None:
        self._pipes += change
        self._changed.set()

    def _dial(self, dialling: Any) -> Any:
        self._prepare(self._addresses.current)
        return dialling.dial(self._addresses.current, block=False)

    async def _keep_dialled(self, dialling: object) -> None:
        while True:
            self._is_leaving = False
            dialer = self._dial(dialling)
            await self._wait_for_end()
            with contextlib.suppress(pynng.NNGException):
                dialer.close()
            self._addresses.move_on()
            await asyncio.sleep(_PAUSE)

    async def _wait_for_end(self) -> None:
        """Wait until the connection is lost, or does not come in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._addresses.patience):
                await self._until(lambda: self._pipes > 0)
        if self._pipes > 0:
            self._addresses.answered()
            await self._until(lambda: self._pipes == 0)

    async def _until(self, is_met: Callable[[], bool]) -> None:
        while not is_met() and not self._is_leaving:
            self._changed.clear()
            await self._changed.wait()
