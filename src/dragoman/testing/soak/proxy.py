"""A TCP proxy in its own thread, whose connections can be cut."""

import asyncio
import threading
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

_CHUNK: Final = 1 << 16


class Proxy:
    """Forwards bytes to one endpoint until it is cut."""

    def __init__(self, endpoint: str) -> None:
        address = urlsplit(endpoint)
        self._target = (address.hostname or "127.0.0.1", address.port or 0)
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._is_cut = False
        self._is_up = threading.Event()
        self.port = 0
        self._thread = threading.Thread(target=self._run, name="dragoman proxy", daemon=True)
        self._thread.start()
        self._is_up.wait(10)

    @property
    def address(self) -> str:
        """The address to connect to instead of the endpoint."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Close every connection and refuse new ones."""
        self._loop.call_soon_threadsafe(self._cut)

    def mend(self) -> None:
        """Accept connections again."""
        self._is_cut = False

    def close(self) -> None:
        """Stop the proxy."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _cut(self) -> None:
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=256)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            for task in self._passing:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*self._passing, return_exceptions=True))
            self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pass(source, sink))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(_CHUNK):
                sink.write(data)
                await sink.drain()
        sink.transport.abort()
        self._writers.discard(sink)
