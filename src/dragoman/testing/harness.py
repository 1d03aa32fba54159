"""A whole broker in a thread, on free ports and a temporary folder, for tests of your workers.

    with LocalBroker() as broker, Worker(broker.url("nfp"), service="math").start() as worker:
        ...

It is the real server on real sockets, inside your process.
"""

import asyncio
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from dragoman.dialects.listeners import LISTENERS
from dragoman.dialects.registry import DIALECTS
from dragoman.server.namespaces import Namespaces
from dragoman.server.server import Server
from dragoman.server.settings_sources import load

LINKS: Final = tuple(each.name for each in LISTENERS)


class LocalBroker:
    """Runs a broker while the `with` block lasts. Opens only the given links."""

    def __init__(self, *links: str, data: Path | None = None, **settings: Any) -> None:
        self._folder = None if data else tempfile.TemporaryDirectory(prefix="dragoman-")
        self.data = data or Path(self._folder.name)  # type: ignore[union-attr]
        wanted = links or ("nfp",)
        listen = {
            name: "tcp://127.0.0.1:0" if name in wanted else "off" for name in LINKS
        } | settings.pop("listen", {})
        loaded = load(data=self.data, listen=listen, drain=1.0, **settings)
        #: Set if the settings have namespaces; then the server is that of the default one.
        self.namespaces = Namespaces(loaded) if loaded.namespaces else None
        self.server = (
            Server(loaded) if self.namespaces is None else self.namespaces.servers["default"]
        )
        self.endpoints: dict[str, str] = {}
        self.error: BaseException | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="dragoman broker", daemon=True)

    def url(self, dialect: str, *, for_workers: bool = False, namespace: str = "") -> str:
        """Return the URL peers of a dialect connect to."""
        found = DIALECTS[dialect]
        link = found.worker_listener if for_workers else found.client_listener
        listener = f"{namespace}/{link.name}" if namespace else link.name
        _, _, address = self.endpoints[listener].partition("://")
        return f"{dialect}://{address}"

    def __enter__(self) -> "LocalBroker":
        self._thread.start()
        self._ready.wait(30.0)
        if self.error is not None:
            if self._folder is not None:
                self._folder.cleanup()
            raise self.error
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        if self._folder is not None:
            self._folder.cleanup()

    def stop(self) -> None:
        """Stop in good order and wait."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe((self.namespaces or self.server).stop)
        self._thread.join(30.0)

    def until_stopped(self, at_most: float = 30.0) -> None:
        """Wait for a broker that a client has told to stop. Raises TimeoutError."""
        self._thread.join(at_most)
        if self._thread.is_alive():
            raise TimeoutError(f"the broker has not stopped within {at_most:g} s")

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self.error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await (self.namespaces or self.server).run(self._on_ready)

    def _on_ready(self, endpoints: dict[str, str]) -> None:
        self.endpoints = endpoints
        self._ready.set()
