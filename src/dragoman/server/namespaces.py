"""All namespaces of a process: one server for each, with its own ledger, gate, limits and services.

The default namespace starts first, because the others may use its listeners, and stops last. If one
fails, all stop: the process is one service, and its supervisor starts it again.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from structlog.contextvars import bind_contextvars

from dragoman.ledger.atomic_file import make_folder
from dragoman.security.files import make_private_folder
from dragoman.security.namespace_keys import NamespaceKeys
from dragoman.security.registry import KeyRegistry
from dragoman.server.guard import REGISTRY_FILE
from dragoman.server.namespace_place import NamespacePlace
from dragoman.server.namespace_settings import (
    DEFAULT_NAMESPACE,
    FOLDER,
    SHARED,
    all_namespaces,
)
from dragoman.server.server import Server
from dragoman.server.serving import OnReady
from dragoman.server.settings import BrokerSettings
from dragoman.server.shared_listeners import SharedListeners
from dragoman.server.stop_signals import stop_on_signals
from dragoman.server.wiring import SESSIONS_FILE
from dragoman.services.logs import NAMESPACE
from dragoman.web.browser_sessions import BrowserSessions


class Namespaces:
    """The servers of a process. `run` returns when the default namespace has stopped."""

    def __init__(self, settings: BrokerSettings) -> None:
        """Prepare. Raises ValueError if the settings of a namespace cannot be used."""
        found = all_namespaces(settings)
        self.shared = _shared_listeners(found)
        places = {name: NamespacePlace(name, len(found), self.shared) for name in found}
        places[DEFAULT_NAMESPACE].states = self.states
        self.servers = {name: Server(own, place=places[name]) for name, own in found.items()}
        self._default = self.servers[DEFAULT_NAMESPACE]
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asked_to_stop = 0

    @property
    def is_going_down(self) -> bool:
        """Whether it was told to stop, and not to start again."""
        return self._asked_to_stop > 0 or self._default.is_going_down

    def states(self) -> dict[str, str]:
        """Return whether each namespace but the default one serves."""
        return {
            name: "stopped" if server.loop is None else "serving"
            for name, server in self.servers.items()
            if name != DEFAULT_NAMESPACE
        }

    async def run(self, on_ready: OnReady) -> None:
        """Serve every namespace; report the endpoints when all are open, as `NAME/LISTENER`."""
        stop_on_signals(self.stop)
        data = self._default.settings.data
        for folder in (data, data / FOLDER):
            await asyncio.to_thread(make_folder, folder)
        make_private_folder(data / FOLDER)
        endpoints: dict[str, str] = {}
        try:
            for name in self.servers:
                if not await self._start(name, endpoints):
                    break
            else:
                on_ready(dict(endpoints))
            await self._until_stopped()
        finally:
            await self._stop_all()

    async def _start(self, name: str, endpoints: dict[str, str]) -> bool:
        """Start a namespace and wait until it listens; return False if it ended before."""
        is_ready = asyncio.Event()

        def opened(own: dict[str, str]) -> None:
            prefix = "" if name == DEFAULT_NAMESPACE else f"{name}/"
            endpoints.update({f"{prefix}{each}": text for each, text in own.items()})
            if name == DEFAULT_NAMESPACE and self.shared is not None:
                self.shared.endpoints = own
            is_ready.set()

        task = asyncio.create_task(self._serve(name, opened), name=f"dragoman namespace {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda done: is_ready.set())
        await is_ready.wait()
        if self._asked_to_stop:
            # The signal came before it could be stopped.
            self._stop_one(name)
        return not task.done() and not self._asked_to_stop

    async def _serve(self, name: str, opened: Callable[[dict[str, str]], None]) -> None:
        # Every task of the server inherits it: the log lines of a namespace are its own.
        bind_contextvars(**{NAMESPACE: name})
        await self.servers[name].run(opened)

    async def _until_stopped(self) -> None:
        """Wait until the default namespace has stopped, or one has failed."""
        while not self._has_failed() and not self._tasks[DEFAULT_NAMESPACE].done():
            running = [task for task in self._tasks.values() if not task.done()]
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)

    def _has_failed(self) -> bool:
        return any(_error_of(task) for task in self._tasks.values() if task.done())

    async def _stop_all(self) -> None:
        """Stop the namespaces, the default one last; raise the first error."""
        if not self._asked_to_stop:
            self.stop()
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        for name, task in self._tasks.items():
            if (error := _error_of(task)) is not None:
                error.add_note(f"in the namespace {name}")
                raise error

    def stop(self) -> None:
        """Drain every namespace, then stop; a second call stops at once."""
        self._asked_to_stop += 1
        others = [name for name in self._tasks if name != DEFAULT_NAMESPACE]
        running = [self._tasks[name] for name in others if not self._tasks[name].done()]
        for name in others:
            self._stop_one(name)
        if self._asked_to_stop > 1 or not running:
            self._stop_one(DEFAULT_NAMESPACE)
            return
        # The others use its listeners until they have drained.
        for task in running:
            task.add_done_callback(partial(self._stop_default, running))

    def _stop_default(self, others: list[asyncio.Task[None]], done: object) -> None:
        if all(task.done() for task in others):
            self._stop_one(DEFAULT_NAMESPACE)

    def _stop_one(self, name: str) -> None:
        task = self._tasks.get(name)
        if task is not None and not task.done():
            self.servers[name].stop()


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


def _shared_listeners(found: dict[str, BrokerSettings]) -> SharedListeners | None:
    """Return the listeners that namespaces share; None: each has its own."""
    default = found[DEFAULT_NAMESPACE]
    sharing = {
        name: own
        for name, own in found.items()
        if name == DEFAULT_NAMESPACE or SHARED in own.listen.model_dump().values()
    }
    if len(sharing) == 1:
        return None
    registries = {
        name: KeyRegistry.open(own.security.registry or own.data / REGISTRY_FILE)
        for name, own in sharing.items()
    }
    sessions = BrowserSessions(time.time, default.data / SESSIONS_FILE)
    return SharedListeners(NamespaceKeys(registries, time.time), sessions)
