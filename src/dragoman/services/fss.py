"""Shared files: `fss.service.broker`, and NorFab's `filesharing` with the same tasks.

There are three ways to fetch a file. NorFab's client gets a first piece, then one for each offset
it sends. Our client asks for a window (`length`), which the service streams. For dialects without
streams, `read_file` returns a piece as its result. The ledger holds only the pieces of `read_file`
and `put_file`: they are a job's result and request.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from typing import Final, TypeVar

from dragoman.services.base import ServiceFault, ServiceSession, TaskTable
from dragoman.services.file_store import FileStore, FileUnavailable

FILES: Final = "fss.service.broker"
#: NorFab's name of the service.
FILESHARING: Final = "filesharing"
LARGEST_PIECE: Final = 4 * 1024 * 1024
LARGEST_WINDOW: Final = 64 * 1024 * 1024
#: The longest wait for the next offset of NorFab's client, in seconds.
_LONGEST_WAIT: Final = 60.0
_THREADS: Final = 4

T = TypeVar("T")


class FileService:
    """The tasks of the file service. All disk access runs in its own threads."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(_THREADS, "dragoman files")
        self.tasks = TaskTable(
            "file",
            {
                "list_roots": self._store.roots,
                "list_files": self.list_files,
                "file_details": self.file_details,
                "walk": self.walk,
                "fetch_file": self.fetch_file,
                "read_file": self.read_file,
                "put_file": self.put_file,
                "put_status": self.put_status,
                "remove_file": self.remove_file,
            },
        )

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, function: Callable[..., T], *args: object) -> T:
        """Run a blocking function in a thread; turn its errors into faults for the caller."""
        try:
            running = asyncio.get_running_loop()
            return await running.run_in_executor(self._threads, function, *args)
        except FileUnavailable as error:
            raise ServiceFault(str(error)) from None
        except OSError as error:
            # The error's own text would disclose a path of the broker's machine.
            raise ServiceFault(f"the broker cannot access its disk: {error.strerror}") from None

    async def list_files(self, url: str) -> list[str]:
        """List the names in a folder."""
        return await self._run(self._store.names, url)

    async def walk(self, url: str) -> list[str]:
        """List every file below a folder."""
        return await self._run(self._store.walk, url)

    async def file_details(self, url: object) -> dict[str, object]:
        """Return size and digests of a file; for a list, one result object for each."""
        if not isinstance(url, list):
            return await self._run(self._store.details, url)
        return {str(each): await self._entry(each) for each in url}

    async def _entry(self, url: object) -> dict[str, object]:
        """Return the details of one of many files as NorFab's result object."""
        nothing: dict[str, object] = {
            "md5hash": None,
            "size_bytes": None,
            "exists": False,
            "sha256": None,
        }
        try:
            found, errors = await self._run(self._store.details, url), []
        except ServiceFault as error:
            found, errors = nothing, [str(error)]
        return {"result": found, "failed": bool(errors), "errors": errors, "messages": []}

    # --- fetching -----------------------------------------------------------------------------

    async def fetch_file(
        self,
        session: ServiceSession,
        url: str,
        chunk_size: int = 256_000,
        offset: int = 0,
        chunk_timeout: float = 5.0,
        length: int | None = None,
    ) -> object:
        """Stream a file: `length` bytes from `offset`, or one piece for each offset received."""
        piece = _between("chunk_size", chunk_size, 1, LARGEST_PIECE)
        start = _between("offset", offset, 0, 1 << 62)
        file = await self._run(self._store.open, url)
        try:
            if length is None:
                wait = min(float(chunk_timeout), _LONGEST_WAIT)
                return await self._paced(session, file, start, piece, wait)
            window = _between("length", length, 0, LARGEST_WINDOW)
            return await self._streamed(session, file, start, piece, window)
        finally:
            await self._run(file.close)

    async def _paced(
        self, session: ServiceSession, file: FileIO, offset: int, piece: int, wait: float
    ) -> bool:
        size = await self._run(file.seek, 0, 2)
        while True:
            data = await self._run(_read_at, file, offset, piece)
            if data:
                await session.stream(data)
            if offset + len(data) >= size or session.is_stopped:
                return True
            try:
                received = await session.input(wait)
            except TimeoutError:
                raise ServiceFault(f"the client sent no offset within {wait:g} s") from None
            offset = _next_offset(received)

    async def _streamed(
        self, session: ServiceSession, file: FileIO, offset: int, piece: int, window: int
    ) -> dict[str, object]:
        digest, sent = hashlib.sha256(), 0
        while sent < window and not session.is_stopped:
            data = await self._run(_read_at, file, offset + sent, min(piece, window - sent))
            if not data:
                break
            digest.update(data)
            sent += len(data)
            await session.stream(data)
        return {"offset": offset, "size": sent, "sha256": digest.hexdigest()}

    async def read_file(self, url: str, offset: int = 0, length: int = 262_144) -> bytes:
        """Return a piece of a file, for dialects without streams."""
        start = _between("offset", offset, 0, 1 << 62)
        count = _between("length", length, 0, LARGEST_PIECE)
        file = await self._run(self._store.open, url)
        try:
            return await self._run(_read_at, file, start, count)
        finally:
            await self._run(file.close)

    # --- putting ------------------------------------------------------------------------------

    async def put_file(
        self, url: str, offset: int, data: bytes, size: int, sha256: str
    ) -> dict[str, object]:
        """Store a piece of a new file in a writable root; the last piece publishes the file."""
        if not isinstance(data, bytes) or len(data) > LARGEST_PIECE:
            raise ServiceFault(f"data: at most {LARGEST_PIECE} bytes at a time")
        whole = _between("size", size, 0, 1 << 62)
        return await self._run(self._store.put, url, offset, data, whole, _hex(sha256))

    async def put_status(self, url: str, size: int, sha256: str) -> dict[str, object]:
        """Return how many bytes of a new file have arrived, and whether it is complete."""
        whole = _between("size", size, 0, 1 << 62)
        return await self._run(self._store.status, url, whole, _hex(sha256))

    async def remove_file(self, url: str) -> dict[str, object]:
        """Remove a file from a writable root."""
        await self._run(self._store.remove, url)
        return {"removed": url}


def _read_at(file: FileIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count) or b""


def _next_offset(received: object) -> int:
    offset = received.get("offset") if isinstance(received, dict) else received
    return _between("offset", offset, 0, 1 << 62)


def _hex(sha256: object) -> str:
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ServiceFault("sha256: 64 hexadecimal digits")
    return sha256


def _between(name: str, number: object, least: int, most: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise ServiceFault(f"{name}: a whole number from {least} to {most}, not {number!r}")
    return number
