"""Out of file descriptors: one log line a second, whatever the number of refused connections.

asyncio reports each failed `accept` with a traceback, and tries again after a second. Connections
that cannot be accepted wait in the kernel's queue; open ones are not affected.
"""

import asyncio
import resource
import time
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger("dragoman.accept")

_EVERY: Final = 1.0
#: How the message of asyncio begins.
_OUT_OF_DESCRIPTORS: Final = "socket.accept() out of system resource"


class AcceptErrors:
    """Handles the exceptions that asyncio reports; counts failed accepts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_line_at = 0.0
        #: Failed accepts since the last line.
        self._unsaid = 0

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handle the exceptions of an event loop."""
        loop.set_exception_handler(self.handle)

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Handle one exception; all but failed accepts as asyncio does."""
        if not str(context.get("message", "")).startswith(_OUT_OF_DESCRIPTORS):
            loop.default_exception_handler(context)
            return
        self._unsaid += 1
        if self._clock() < self._next_line_at:
            return
        self._next_line_at = self._clock() + _EVERY
        failed, self._unsaid = self._unsaid, 0
        log.error(
            "no file descriptor for a new connection; it waits, and others are served",
            failed=failed,
            limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            error=str(context.get("exception", "")),
            hint="raise the limit (ulimit -n, LimitNOFILE= of systemd) or close idle peers",
        )
