"""Shared files for clients: list, fetch with resume, put, remove.

A file is fetched in windows. Each window is a job that streams chunks and returns their digest. If
a chunk is lost, one window is fetched again; only verified windows are written. An interrupted
fetch leaves a part file beside the destination, and the next fetch resumes from it. At most `AHEAD`
windows are in memory, whatever the size of the file.
"""

import asyncio
import hashlib
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

from dragoman.model.content import Call
from dragoman.model.fault import FaultCode
from dragoman.sdk.errors import DragomanError, JobFailed, StillRunning
from dragoman.sdk.jobs import AsyncJob, Chunk
from dragoman.sdk.large_values import LARGEST
from dragoman.sdk.large_values import SCHEME as SCHEME

if TYPE_CHECKING:
    from dragoman.sdk.blocking import Client, Portal
    from dragoman.sdk.client import AsyncClient

FILES: Final = "fss.service.broker"
WINDOW: Final = 8 * 1024 * 1024
PIECE: Final = 512 * 1024
#: Windows that are requested ahead.
AHEAD: Final = 3
#: Bytes of one piece where the dialect has no streams, and of files that are put.
SMALL_PIECE: Final = 256 * 1024
_TIMEOUT: Final = 60.0
_TRIES: Final = 5
_BLOCK: Final = 1 << 20

#: Called with the bytes transferred so far and the size of the file.
OnProgress = Callable[[int, int], None]


class TransferFailed(DragomanError):
    """A transfer failed. Verified bytes are kept, and the next attempt resumes from them."""


#: Names in a folder, or URLs of files.
Names: TypeAlias = list[str]


class AsyncFiles:
    """The files that a broker shares."""

    def __init__(self, client: "AsyncClient", *, window: int = WINDOW, piece: int = PIECE) -> None:
        self._client = client
        self._window = window
        self._piece = piece
        #: Whether this dialect carries streams.
        self._has_streams = True

    async def _ask(self, task: str, **kwargs: object) -> Any:
        call = Call(task, (), kwargs, timeout=_TIMEOUT)
        return await self._client.order(FILES, call).result(_TIMEOUT + 5.0)

    async def list(self, url: str) -> Names:
        """List the entries of a folder."""
        return [str(name) for name in await self._ask("list_files", url=url)]

    async def walk(self, url: str) -> Names:
        """List every file below a folder, as URLs."""
        return [str(each) for each in await self._ask("walk", url=url)]

    async def details(self, url: str) -> dict[str, Any]:
        """Return size and digests of a file."""
        return dict(await self._ask("file_details", url=url))

    # --- fetching -----------------------------------------------------------------------------

    async def fetch(
        self, url: str, destination: Path, on_progress: OnProgress | None = None
    ) -> Path:
        """Download a file and verify its SHA-256. Resumes an interrupted download."""
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
            raise TransferFailed(f"{url}: the download does not match its SHA-256; fetch again")
        await asyncio.to_thread(part.replace, destination)
        return destination

    async def read(self, url: str, most: int = LARGEST) -> bytes:
        """Return the bytes of a file, at most so many. Raises `TransferFailed` if it has more."""
        size = int((await self.details(url))["size_bytes"])
        if size > most:
            raise TransferFailed(f"{url} has {size:,} bytes, and at most {most:,} are read")
        return b"".join([window async for window in self._windows(url, 0, size)])

    async def _windows(self, url: str, start: int, size: int) -> AsyncIterator[bytes]:
        """Yield a file's windows in order; request some of them ahead."""
        waiting: deque[tuple[int, int, AsyncJob | None]] = deque()
        requested = start
        while requested < size or waiting:
            while requested < size and len(waiting) < AHEAD:
                length = min(self._window, size - requested)
                waiting.append((requested, length, self._submit(url, requested, length)))
                requested += length
            offset, length, job = waiting.popleft()
            yield await self._window_at(url, offset, length, job)

    def _submit(self, url: str, offset: int, length: int) -> AsyncJob | None:
        if not self._has_streams:
            return None
        window = {"url": url, "offset": offset, "length": length, "chunk_size": self._piece}
        return self._client.order(FILES, Call("fetch_file", (), window, timeout=_TIMEOUT))

    async def _window_at(self, url: str, offset: int, length: int, job: AsyncJob | None) -> bytes:
        """Return one window; request it again if it did not arrive whole."""
        for _ in range(_TRIES):
            job = job or self._submit(url, offset, length)
            if job is None:
                return await self._piecewise(url, offset, length)
            data = await _received_bytes(job)
            job = None
            if data is not None and len(data) == length:
                return data
            if data == b"":
                # The job succeeded without a chunk: this dialect has no streams.
                self._has_streams = False
        raise TransferFailed(
            f"{url}: {length} bytes at offset {offset} did not arrive in {_TRIES} attempts"
        )

    async def _piecewise(self, url: str, offset: int, length: int) -> bytes:
        pieces, at = [], offset
        while at < offset + length:
            count = min(SMALL_PIECE, offset + length - at)
            data = await self._ask("read_file", url=url, offset=at, length=count)
            if not data:
                raise TransferFailed(f"{url} ends at byte {at}; it changed during the download")
            pieces.append(data)
            at += len(data)
        return b"".join(pieces)

    # --- putting ------------------------------------------------------------------------------

    async def put(self, path: Path, url: str, on_progress: OnProgress | None = None) -> None:
        """Upload a file to a writable folder. It appears there when it is complete.

        Uploads the bytes that the file has now. What is appended meanwhile is left out, so that a
        log file that grows can be uploaded.
        """
        with path.open("rb") as file:
            size, sha256 = await asyncio.to_thread(_measure, file)
            await self._put(file, url, size, sha256, on_progress or _ignore)

    async def put_bytes(self, data: bytes, url: str) -> None:
        """Upload bytes as a file, unless the same file is there already."""
        await self._put(BytesIO(data), url, len(data), hashlib.sha256(data).hexdigest(), _ignore)

    async def _put(
        self, file: BinaryIO, url: str, size: int, sha256: str, on_progress: OnProgress
    ) -> None:
        about = {"size": size, "sha256": sha256}
        status = await self._ask("put_status", url=url, **about)
        have = int(status["have"])
        # A broker of an earlier release does not say whether the file is there.
        if status.get("is_done"):
            on_progress(size, size)
        while not status.get("is_done"):
            count = min(SMALL_PIECE, size - have)
            data = await asyncio.to_thread(_read_at, file, have, count)
            if len(data) < count:
                raise TransferFailed(
                    f"{url}: the file became shorter during the upload; put it again"
                )
            status = await self._ask("put_file", url=url, offset=have, data=data, **about)
            if int(status["have"]) <= have and data and not status["is_done"]:
                raise TransferFailed(f"{url}: the upload is stuck at {status['have']} bytes")
            have = int(status["have"])
            on_progress(have, size)

    async def remove(self, url: str) -> None:
        """Remove a file from a writable folder."""
        await self._ask("remove_file", url=url)


class Files:
    """The blocking form of `AsyncFiles`."""

    def __init__(self, client: "Client") -> None:
        self._portal: Portal = client.portal
        self._files = AsyncFiles(client.asynchronous)

    def list(self, url: str = SCHEME) -> Names:
        """List the entries of a folder."""
        return self._portal.wait(self._files.list(url))

    def walk(self, url: str = SCHEME) -> Names:
        """List every file below a folder, as URLs."""
        return self._portal.wait(self._files.walk(url))

    def details(self, url: str) -> dict[str, Any]:
        """Return size and digests of a file."""
        return self._portal.wait(self._files.details(url))

    def fetch(self, url: str, destination: Path, on_progress: OnProgress | None = None) -> Path:
        """Download a file and verify its SHA-256. Resumes an interrupted download."""
        return self._portal.wait(self._files.fetch(url, destination, on_progress))

    def put(self, path: Path, url: str, on_progress: OnProgress | None = None) -> None:
        """Upload a file to a writable folder."""
        self._portal.wait(self._files.put(path, url, on_progress))

    def put_bytes(self, data: bytes, url: str) -> None:
        """Upload bytes as a file, unless the same file is there already."""
        self._portal.wait(self._files.put_bytes(data, url))

    def remove(self, url: str) -> None:
        """Remove a file from a writable folder."""
        self._portal.wait(self._files.remove(url))


async def _received_bytes(job: AsyncJob) -> bytes | None:
    """Return a window's bytes; None if they are incomplete. Raises if the task failed."""
    pieces: list[bytes] = [e.data async for e in job.events() if isinstance(e, Chunk)]
    try:
        sent: Mapping[str, Any] = await job.result(_TIMEOUT)
    except JobFailed as error:
        if error.fault.code is FaultCode.TASK_FAILED:
            raise
        return None
    except StillRunning:
        return None
    data = b"".join(pieces)
    if not data or hashlib.sha256(data).hexdigest() == sent["sha256"]:
        return data
    return None


def _ignore(done: int, size: int) -> None:
    """Report no progress."""


def _begin(part: Path, size: int) -> tuple["hashlib._Hash", int]:
    """Hash what is there already; drop a part file that is larger than the whole file."""
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


def _measure(file: BinaryIO) -> tuple[int, str]:
    """Return size and SHA-256 of a file as it is now. It may grow while it is read."""
    size = os.fstat(file.fileno()).st_size
    digest, left = hashlib.sha256(), size
    while left and (data := file.read(min(_BLOCK, left))):
        digest.update(data)
        left -= len(data)
    return size - left, digest.hexdigest()


def _write(file: BinaryIO, data: bytes, digest: "hashlib._Hash") -> None:
    file.write(data)
    digest.update(data)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _read_at(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)
