"""How results reach a client: small ones in the reply, large ones as a Parquet file.

A file is offered through the broker's file service. Where this machine sees the folder that is
shared there, the file is written straight into it; else it is put through the service, which
allows some folders and some sizes only. Either way what is old or too much is removed.
"""

import hashlib
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from dragoman.sdk.blocking import Client
from dragoman.sdk.errors import DragomanError
from dragoman.sdk.files import Files
from dragoman.spark.retention import ENDING, ResultFile, Retention, is_result
from dragoman.spark.settings import SparkLimits

log = logging.getLogger(__name__)

_BYTES = (bytes, bytearray, memoryview)


class ResultTooLarge(Exception):
    """The result is larger than this worker gives out. The message says what to do."""


class ResultStore(Protocol):
    """Where files are offered."""

    def save(self, table: pa.Table, name: str) -> dict[str, Any]:
        """Write a table as a file; return its URL, size and digest."""
        ...

    def sweep(self, now: float) -> list[str]:
        """Remove what is not kept any more; return its names."""
        ...


class ResultFolder:
    """A folder of this machine that the file service shares under a URL."""

    def __init__(self, folder: str, url: str, keeping: Retention | None = None) -> None:
        self._folder = Path(folder)
        self._url = url.rstrip("/")
        self._keeping = keeping or Retention()

    def save(self, table: pa.Table, name: str) -> dict[str, Any]:
        """Write the file beside its name, then give it its name: it is there whole or not."""
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f".{name}.part"
        told = _write(table, part)
        part.replace(self._folder / name)
        now = time.time()
        self.sweep(now)
        return {"file": f"{self._url}/{name}", **told, **self._keeping.told(now)}

    def sweep(self, now: float) -> list[str]:
        """Remove what is not kept any more; return its names."""
        gone = self._keeping.over(self._files(), now)
        return [name for name in gone if self._is_removed(self._folder / name)]

    def _is_removed(self, path: Path) -> bool:
        try:
            # Another worker may share the folder.
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("an old result cannot be removed: %s", error)
            return False
        return True

    def _files(self) -> list[ResultFile]:
        found = []
        for path in self._folder.glob(f"*{ENDING}"):
            with suppress(FileNotFoundError):
                state = path.stat()
                found.append(ResultFile(path.name, state.st_size, state.st_mtime))
        return [each for each in found if is_result(each.name)]


class FileServiceFolder:
    """A folder of the file service that may be written to."""

    def __init__(
        self, connect: Callable[[], Client], url: str, keeping: Retention | None = None
    ) -> None:
        self._connect = connect
        self._url = url.rstrip("/")
        self._keeping = keeping or Retention()
        #: What is there; the service reads a whole file to tell about it, so it is asked once.
        self._known: dict[str, ResultFile] = {}
        self._lock = threading.Lock()

    def save(self, table: pa.Table, name: str) -> dict[str, Any]:
        """Write the file here and put it there."""
        with tempfile.TemporaryDirectory(prefix="dragoman-spark-") as folder:
            path = Path(folder, name)
            told = _write(table, path)
            url = f"{self._url}/{name}"
            try:
                with self._connect() as client:
                    Files(client).put(path, url)
                    self._tidy(Files(client), time.time())
            except DragomanError as error:
                raise ResultTooLarge(f"the result could not be put at {url}: {error}") from None
        return {"file": url, **told, **self._keeping.told(time.time())}

    def sweep(self, now: float) -> list[str]:
        """Remove what is not kept any more; return its names. A broker that is away has time."""
        try:
            with self._connect() as client:
                return self._tidy(Files(client), now)
        except DragomanError:
            return []

    def _tidy(self, files: Files, now: float) -> list[str]:
        """Remove what is to go; a result that was put is there, whatever becomes of the others."""
        try:
            return self._sweep(files, now)
        except DragomanError as error:
            log.warning("old results at %s cannot be removed: %s", self._url, error)
            return []

    def _sweep(self, files: Files, now: float) -> list[str]:
        if self._keeping == Retention():
            return []
        with self._lock:
            there = [name for name in files.list(self._url) if is_result(name)]
            self._known = {name: self._known.get(name) or self._ask(files, name) for name in there}
            gone = self._keeping.over(self._known.values(), now)
            for name in gone:
                files.remove(f"{self._url}/{name}")
                del self._known[name]
            return gone

    def _ask(self, files: Files, name: str) -> ResultFile:
        about = files.details(f"{self._url}/{name}")
        return ResultFile(name, int(about["size_bytes"]), float(about["modified"]))


class Sweeper:
    """Removes in time what nobody asks about any more, however idle the worker is."""

    def __init__(self, place: ResultStore, every: float) -> None:
        self._place = place
        self._every = every
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dragoman results", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            with suppress(OSError):
                self._place.sweep(time.time())
            self._is_over.wait(self._every)

    def close(self) -> None:
        """End."""
        self._is_over.set()
        self._thread.join(5.0)


def _write(table: pa.Table, path: Path) -> dict[str, Any]:
    pq.write_table(table, path, compression="zstd")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def reply(
    table: pa.Table, limits: SparkLimits, place: ResultStore | None, name: str
) -> dict[str, Any]:
    """Return what the client gets for a result. Raises `ResultTooLarge`."""
    if table.num_rows > limits.rows or table.nbytes > limits.bytes:
        raise ResultTooLarge(
            f"the result has more than {limits.rows:,} rows or {limits.bytes:,} bytes; "
            f"aggregate it, or add a LIMIT"
        )
    told = {"columns": _columns(table), "count": table.num_rows}
    if table.num_rows <= limits.reply_rows and table.nbytes <= limits.reply_bytes:
        return {**told, "rows": _rows(table)}
    if place is None:
        raise ResultTooLarge(
            f"{table.num_rows:,} rows of {table.nbytes:,} bytes are more than a reply holds "
            f"({limits.reply_rows:,} rows, {limits.reply_bytes:,} bytes), and this worker "
            f"has no place for files; add a LIMIT, or start it with --results"
        )
    return {**told, **place.save(table, f"{name}{ENDING}")}


def _columns(table: pa.Table) -> list[dict[str, str]]:
    return [{"name": field.name, "type": str(field.type)} for field in table.schema]


def _rows(table: pa.Table) -> list[list[Any]]:
    """Return rows as lists: columns of a result may share a name."""
    columns = [column.to_pylist() for column in table.columns]
    plain = msgspec.to_builtins(
        [list(row) for row in zip(*columns, strict=True)], builtin_types=_BYTES
    )
    return list(plain)
