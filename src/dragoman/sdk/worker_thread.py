"""The background thread of a worker: start it, wait for its registration, stop it."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Final

from dragoman.sdk.errors import Refused, Unreachable

#: Seconds between two looks for a refusal while `wait_ready` waits.
_CHECK_EVERY: Final = 0.2
#: A key that was added just now is accepted within a second or so; NATS reloads its users.
_REFUSAL_GRACE: Final = 3.0


class WorkerThread:
    """Runs a worker's `serve` in a thread.

    `refusal` says why the broker refused the worker; empty if it did not. `describe` is the message
    for a worker that was not registered within some seconds.
    """

    def __init__(
        self,
        name: str,
        serve: Callable[[], Coroutine[object, None, None]],
        refusal: Callable[[], str],
        describe: Callable[[float], str],
    ) -> None:
        self._name = name
        self._serve = serve
        self._refusal = refusal
        self._describe = describe
        self._thread: threading.Thread | None = None
        #: What ended `serve` before the worker was registered.
        self._error: BaseException | None = None
        #: Set while the broker has the worker registered.
        self.is_ready = threading.Event()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Serve in the thread."""
        self._thread = threading.Thread(
            target=self._run, name=f"dragoman {self._name}", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self.is_ready.is_set():
                raise
            # Nobody reads a thread's traceback; `wait_ready` raises this.
            self._error = error

    def note_registered(self, is_registered: bool) -> None:
        """Note whether the broker has confirmed the registration."""
        (self.is_ready.set if is_registered else self.is_ready.clear)()

    def wait_ready(self, timeout: float) -> None:
        """Wait until the broker has confirmed the registration. Raises Refused, Unreachable."""
        started = time.monotonic()
        deadline = started + timeout
        while not self.is_ready.wait(min(_CHECK_EVERY, max(0.0, deadline - time.monotonic()))):
            refusal = self._refusal()
            if refusal and time.monotonic() - started >= min(_REFUSAL_GRACE, timeout):
                raise Refused(refusal)
            if self._error is not None:
                raise self._error
            is_dead = self._thread is not None and not self._thread.is_alive()
            if is_dead or time.monotonic() >= deadline:
                raise Unreachable(self._describe(timeout))

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread."""
        if self._thread is not None:
            self._thread.join(timeout)

    def stop(
        self, loop: asyncio.AbstractEventLoop | None, drain: Callable[[], None], timeout: float
    ) -> None:
        """Have the loop call `drain`, and once more if the thread still runs after `timeout`."""
        if self._thread is None or loop is None:
            return
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(drain)
            self.join(timeout)
            if self.is_alive:
                loop.call_soon_threadsafe(drain)
                self.join(5.0)
