"""Results of queries: small ones in the reply, large ones as a Parquet file.

Clients fetch a file from the broker's file service. If this machine has the shared folder, the file
is written there. Else it is uploaded through the service, which limits folders and sizes. In both
cases old and excess files are removed.
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


class SparkResultTooLarge(Exception):
    """The result is larger than this worker allows. The message says what to do."""


class ResultStore(Protocol):
    """Where result files are stored."""

    def save(self, table: pa.Table, name: str) -> dict[str, object]:
        """Store a table as a file; return its URL, size and digest."""
        ...

    def sweep(self, now: float) -> list[str]:
        """Remove old and excess files; return their names."""
        ...


class ResultFolder:
    """A local folder that the file service shares under a URL."""

    def __init__(self, folder: str, url: str, retention: Retention | None = None) -> None:
        self._folder = Path(folder)
        self._url = url.rstrip("/")
        self._retention = retention or Retention()

    def save(self, table: pa.Table, name: str) -> dict[str, object]:
        """Write a part file, then rename it: clients see a complete file or none."""
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f".{name}.part"
        details = _write(table, part)
        part.replace(self._folder / name)
        now = time.time()
        self.sweep(now)
        return {"file": f"{self._url}/{name}", **details, **self._retention.announcement(now)}

    def sweep(self, now: float) -> list[str]:
        """Remove old and excess files; return their names."""
        excess = self._retention.excess(self._files(), now)
        return [name for name in excess if self._remove(self._folder / name)]

    def _remove(self, path: Path) -> bool:
        try:
            # Another worker that shares the folder may have removed it.
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("cannot remove old result %s: %s", path, error)
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
    """A writable folder of the file service."""

    def __init__(
        self, connect: Callable[[], Client], url: str, retention: Retention | None = None
    ) -> None:
        self._connect = connect
        self._url = url.rstrip("/")
        self._retention = retention or Retention()
        #: Known files. The service reads a whole file to describe it, so it is asked once.
        self._known: dict[str, ResultFile] = {}
        self._lock = threading.Lock()

    def save(self, table: pa.Table, name: str) -> dict[str, object]:
        """Write a temporary file and upload it."""
        with tempfile.TemporaryDirectory(prefix="dragoman-spark-") as folder:
            path = Path(folder, name)
            details = _write(table, path)
            url = f"{self._url}/{name}"
            try:
                with self._connect() as client:
                    Files(client).put(path, url)
                    self._tidy(Files(client), time.time())
            except DragomanError as error:
                raise SparkResultTooLarge(f"cannot upload the result to {url}: {error}") from None
        return {"file": url, **details, **self._retention.announcement(time.time())}

    def sweep(self, now: float) -> list[str]:
        """Remove old and excess files; return their names. If the broker is away, try later."""
        try:
            with self._connect() as client:
                return self._tidy(Files(client), now)
        except DragomanError:
            return []

    def _tidy(self, files: Files, now: float) -> list[str]:
        """Remove old and excess files. If that fails, the new result is stored all the same."""
        try:
            return self._sweep(files, now)
        except DragomanError as error:
            log.warning("cannot remove old results at %s: %s", self._url, error)
            return []

    def _sweep(self, files: Files, now: float) -> list[str]:
        if self._retention == Retention():
            return []
        with self._lock:
            listed = [name for name in files.list(self._url) if is_result(name)]
            self._known = {n: self._known.get(n) or self._describe(files, n) for n in listed}
            excess = self._retention.excess(self._known.values(), now)
            for name in excess:
                files.remove(f"{self._url}/{name}")
                del self._known[name]
            return excess

    def _describe(self, files: Files, name: str) -> ResultFile:
        about = files.details(f"{self._url}/{name}")
        return ResultFile(name, int(about["size_bytes"]), float(about["modified"]))


class Sweeper:
    """A thread that sweeps a store regularly, also while the worker is idle."""

    def __init__(self, store: ResultStore, every: float) -> None:
        self._store = store
        self._every = every
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dragoman results", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            with suppress(OSError):
                self._store.sweep(time.time())
            self._is_over.wait(self._every)

    def close(self) -> None:
        """End the thread."""
        self._is_over.set()
        self._thread.join(5.0)


def _write(table: pa.Table, path: Path) -> dict[str, object]:
    pq.write_table(table, path, compression="zstd")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def reply(
    table: pa.Table, limits: SparkLimits, store: ResultStore | None, name: str
) -> dict[str, Any]:
    """Return a client's reply: the rows, or the file with them. Raises `SparkResultTooLarge`."""
    if table.num_rows > limits.rows or table.nbytes > limits.bytes:
        raise SparkResultTooLarge(
            f"the result has more than {limits.rows:,} rows or {limits.bytes:,} bytes; "
            f"aggregate it, or add a LIMIT"
        )
    summary = {"columns": _columns(table), "count": table.num_rows}
    if table.num_rows <= limits.reply_rows and table.nbytes <= limits.reply_bytes:
        return {**summary, "rows": _rows(table)}
    if store is None:
        raise SparkResultTooLarge(
            f"{table.num_rows:,} rows of {table.nbytes:,} bytes are more than a reply holds "
            f"({limits.reply_rows:,} rows, {limits.reply_bytes:,} bytes), and this worker "
            f"stores no files; add a LIMIT, or start it with --results"
        )
    return {**summary, **store.save(table, f"{name}{ENDING}")}


def _columns(table: pa.Table) -> list[dict[str, str]]:
    return [{"name": field.name, "type": str(field.type)} for field in table.schema]


def _rows(table: pa.Table) -> list[list[object]]:
    """Return rows as lists, because columns of a result may share a name."""
    columns = [column.to_pylist() for column in table.columns]
    plain = msgspec.to_builtins(
        [list(row) for row in zip(*columns, strict=True)], builtin_types=_BYTES
    )
    return list(plain)
