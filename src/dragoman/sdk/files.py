"""Shared files from the client's side: look, fetch with resume, put, and a cache.

A file is fetched in windows. Each window is a job whose pieces are streamed and which ends with the
digest of what was sent, so a piece that went missing costs one window; only checked windows are
written. What is there of a broken transfer is kept beside the destination and gone on from. At most
a few windows are in memory, whatever the size of the file.
"""

import asyncio
import hashlib
import os
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from dragoman.model.content import Call
from dragoman.model.fault import FaultCode
from dragoman.sdk.blocking import Client, Portal
from dragoman.sdk.client import AsyncClient
from dragoman.sdk.errors import DragomanError, JobFailed, StillRunning
from dragoman.sdk.jobs import AsyncJob, Chunk

FILES: Final = "fss.service.broker"
SCHEME: Final = "nf://"
WINDOW: Final = 8 * 1024 * 1024
PIECE: Final = 512 * 1024
#: Windows asked for before the first of them has arrived.
AHEAD: Final = 3
#: Pieces of files where a dialect has no streams, and of files that are put.
SMALL_PIECE: Final = 256 * 1024
_TIMEOUT: Final = 60.0
_TRIES: Final = 5
_BLOCK: Final = 1 << 20

#: Told how many bytes there are, of how many.
OnProgress = Callable[[int, int], None]


class TransferFailed(DragomanError):
    """A file could not be moved whole. What has arrived is kept, and gone on from next time."""


class AsyncFiles:
    """The files a broker shares."""

    def __init__(self, client: AsyncClient, *, window: int = WINDOW, piece: int = PIECE) -> None:
        self._client = client
        self._window = window
        self._piece = piece
        #: Whether this dialect brings pieces of streams.
        self._has_streams = True

    async def _ask(self, task: str, **kwargs: Any) -> Any:
        call = Call(task, (), kwargs, timeout=_TIMEOUT)
        return await self._client.order(FILES, call).result(_TIMEOUT + 5.0)

    async def list(self, url: str) -> Any:
        """List what is directly in a folder."""
        return await self._ask("list_files", url=url)

    async def walk(self, url: str) -> Any:
        """List every file below a folder, as URLs."""
        return await self._ask("walk", url=url)

    async def details(self, url: str) -> Any:
        """Return size and digests of a file."""
        return await self._ask("file_details", url=url)

    # --- fetching -----------------------------------------------------------------------------

    async def fetch(
        self, url: str, destination: Path, on_progress: OnProgress | None = None
    ) -> Path:
        """Bring a file here, checked by its SHA-256; one that was broken off is gone on with."""
        details = await self.details(url)
        size, sha256 = int(details["size_bytes"]), str(details["sha256"])
        part = destination.with_name(f".{destination.name}.{sha256[:16]}.part")
        await asyncio.to_thread(destination.parent.mkdir, parents=True, exist_ok=True)
        digest, have = await asyncio.to_thread(_begin, part, size)
        file = await asyncio.to_thread(part.open, "ab")
        try:
            async for data in self._windows(url, have, size):
                await asyncio.to_thread(_write, file, data, digest)
                have += len(data)
                if on_progress is not None:
                    on_progress(have, size)
            await asyncio.to_thread(_sync, file)
        finally:
            await asyncio.to_thread(file.close)
        if digest.hexdigest() != sha256 or have != size:
            await asyncio.to_thread(part.unlink)
            raise TransferFailed(f"{url} is not what was announced; it was changed meanwhile")
        await asyncio.to_thread(part.replace, destination)
        return destination

    async def _windows(self, url: str, start: int, size: int) -> Any:
        """Yield a file window by window, in order, with some asked for ahead."""
        waiting: deque[tuple[int, int, AsyncJob | None]] = deque()
        asked = start
        while asked < size or waiting:
            while asked < size and len(waiting) < AHEAD:
                length = min(self._window, size - asked)
                waiting.append((asked, length, self._order(url, asked, length)))
                asked += length
            offset, length, job = waiting.popleft()
            yield await self._window_at(url, offset, length, job)

    def _order(self, url: str, offset: int, length: int) -> AsyncJob | None:
        if not self._has_streams:
            return None
        said = {"url": url, "offset": offset, "length": length, "chunk_size": self._piece}
        return self._client.order(FILES, Call("fetch_file", (), said, timeout=_TIMEOUT))

    async def _window_at(self, url: str, offset: int, length: int, job: AsyncJob | None) -> bytes:
        """Return one window, asking again for what did not arrive whole."""
        for _ in range(_TRIES):
            job = job or self._order(url, offset, length)
            if job is None:
                return await self._piecewise(url, offset, length)
            data = await _received(job)
            job = None
            if data is not None and len(data) == length:
                return data
            if data == b"":
                # The job succeeded and nothing came: this dialect has no streams.
                self._has_streams = False
        raise TransferFailed(f"{url}: {length} bytes from {offset} on did not arrive")

    async def _piecewise(self, url: str, offset: int, length: int) -> bytes:
        pieces, at = [], offset
        while at < offset + length:
            count = min(SMALL_PIECE, offset + length - at)
            data = await self._ask("read_file", url=url, offset=at, length=count)
            if not data:
                raise TransferFailed(f"{url} ends at {at}; it was changed meanwhile")
            pieces.append(data)
            at += len(data)
        return b"".join(pieces)

    # --- putting ------------------------------------------------------------------------------

    async def put(self, path: Path, url: str, on_progress: OnProgress | None = None) -> None:
        """Put a file where that is allowed; it appears there when it is whole."""
        size = (await asyncio.to_thread(path.stat)).st_size
        digest, _ = await asyncio.to_thread(_begin, path, size)
        about = {"size": size, "sha256": digest.hexdigest()}
        have = int((await self._ask("put_status", url=url, **about))["have"])
        with path.open("rb") as file:
            while True:
                data = await asyncio.to_thread(_read_at, file, have, SMALL_PIECE)
                said = await self._ask("put_file", url=url, offset=have, data=data, **about)
                if on_progress is not None:
                    on_progress(int(said["have"]), size)
                if said["is_done"]:
                    return
                if int(said["have"]) <= have and data:
                    raise TransferFailed(f"{url}: no more than {said['have']} bytes arrive")
                have = int(said["have"])

    async def remove(self, url: str) -> None:
        """Remove a file from where files may be put."""
        await self._ask("remove_file", url=url)


class Files:
    """The same for code without asyncio."""

    def __init__(self, client: Client) -> None:
        self._portal: Portal = client.portal
        self._files = AsyncFiles(client.asynchronous)

    def list(self, url: str = SCHEME) -> Any:
        """List what is directly in a folder."""
        return self._portal.wait(self._files.list(url))

    def walk(self, url: str = SCHEME) -> Any:
        """List every file below a folder, as URLs."""
        return self._portal.wait(self._files.walk(url))

    def details(self, url: str) -> Any:
        """Return size and digests of a file."""
        return self._portal.wait(self._files.details(url))

    def fetch(self, url: str, destination: Path, on_progress: OnProgress | None = None) -> Path:
        """Bring a file here, checked by its SHA-256."""
        return self._portal.wait(self._files.fetch(url, destination, on_progress))

    def put(self, path: Path, url: str, on_progress: OnProgress | None = None) -> None:
        """Put a file where that is allowed."""
        self._portal.wait(self._files.put(path, url, on_progress))

    def remove(self, url: str) -> None:
        """Remove a file from where files may be put."""
        self._portal.wait(self._files.remove(url))


async def _received(job: AsyncJob) -> bytes | None:
    """Return what a window brought; None: it is not what was sent. Raises on a definite no."""
    pieces: list[bytes] = [e.data async for e in job.events() if isinstance(e, Chunk)]
    try:
        said: Mapping[str, Any] = await job.result(_TIMEOUT)
    except JobFailed as error:
        if error.fault.code is FaultCode.TASK_FAILED:
            raise
        return None
    except StillRunning:
        return None
    data = b"".join(pieces)
    if not data or hashlib.sha256(data).hexdigest() == said["sha256"]:
        return data
    return None


def _begin(part: Path, size: int) -> tuple[Any, int]:
    """Read what is there already; too much of it cannot be the beginning of this file."""
    digest, have = hashlib.sha256(), 0
    if not part.exists():
        return digest, 0
    if part.stat().st_size > size:
        part.unlink()
        return digest, 0
    with part.open("rb") as file:
        while data := file.read(_BLOCK):
            digest.update(data)
            have += len(data)
    return digest, have


def _write(file: Any, data: bytes, digest: Any) -> None:
    file.write(data)
    digest.update(data)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _read_at(file: Any, offset: int, count: int) -> bytes:
    file.seek(offset)
    data: bytes = file.read(count)
    return data
