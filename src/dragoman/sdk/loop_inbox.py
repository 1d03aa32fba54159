"""What threads have for a worker's event loop. One wake-up of the loop serves all that waits."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable


class LoopInbox:
    """Functions that the loop runs in the order in which threads put them."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[Callable[[], object]] = deque()
        self._has_wake_up = False

    def attach(self) -> None:
        """Use the running event loop."""
        self._loop = asyncio.get_running_loop()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop; None before the worker serves."""
        return self._loop

    def put(self, work: Callable[[], object]) -> None:
        """Have the loop run `work`. Thread-safe. A closed loop ignores it."""
        assert self._loop is not None, "the worker does not serve"
        self._waiting.append(work)
        if not self._has_wake_up:
            self._has_wake_up = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        # First: what is put from now on wakes the loop again.
        self._has_wake_up = False
        while self._waiting:
            self._waiting.popleft()()

    def later(self, seconds: float, work: Callable[[], None]) -> object:
        """Have the loop run `work` after some seconds. Call it in the loop."""
        assert self._loop is not None, "the worker does not serve"
        return self._loop.call_later(seconds, work)
