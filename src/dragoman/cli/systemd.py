"""What `up` and `worker` tell systemd: ready, alive, stopping. Silent without `Type=notify`."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

#: Seconds between two looks; a watchdog asks for a sign in at most half of its time.
_LOOK_EVERY: Final = 0.5
_MICROSECONDS: Final = 1_000_000


class SystemdNotifier:
    """One end of systemd's notification socket (sd_notify)."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        #: A name that begins with @ is in the abstract name space.
        self._path = "\0" + path[1:] if path.startswith("@") else path
        for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        micros = environment.get("WATCHDOG_USEC", "") if for_us else ""
        #: Seconds within which the manager wants a sign of life; 0: it has no watchdog.
        self.watchdog = int(micros) / _MICROSECONDS if micros.isdigit() else 0.0

    def tell(self, *lines: str) -> None:
        """Send a notification. A manager that is gone must not stop the process."""
        if not self._path:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.setblocking(False)
                out.sendto("\n".join(lines).encode(), self._path)
        except OSError:
            return

    async def accompany(
        self,
        serving: Awaitable[None],
        is_ready: Callable[[], bool],
        is_stopping: Callable[[], bool],
    ) -> None:
        """Serve; meanwhile tell when it is ready, that its event loop runs, and when it stops."""
        looking = asyncio.create_task(self._look(is_ready, is_stopping))
        try:
            await serving
        finally:
            looking.cancel()
            self.tell("STOPPING=1")

    async def _look(self, is_ready: Callable[[], bool], is_stopping: Callable[[], bool]) -> None:
        if not self._path:
            return
        told: set[str] = set()
        pause = min(_LOOK_EVERY, self.watchdog / 2 or _LOOK_EVERY)
        while True:
            for text, is_so in (("READY=1", is_ready), ("STOPPING=1", is_stopping)):
                if text not in told and is_so():
                    told.add(text)
                    self.tell(text)
            if self.watchdog:
                self.tell("WATCHDOG=1")
            await asyncio.sleep(pause)
