"""How results reach a client: small ones in the reply, large ones as a Parquet file.

A file is offered through the broker's file service. Where this machine sees the folder that is
shared there, the file is written straight into it; else it is put through the service, which
allows some folders and some sizes only.
"""

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from dragoman.sdk.blocking import Client
from dragoman.sdk.errors import DragomanError
from dragoman.sdk.files import Files
from dragoman.spark.settings import LimitsSection

_BYTES = (bytes, bytearray, memoryview)


class TooMuch(Exception):
    """The result is larger than this worker gives out. The message says what to do."""


class Place(Protocol):
    """Where files are offered."""

    def offer(self, table: pa.Table, name: str) -> dict[str, Any]:
        """Write a table as a file; return its URL, size and digest."""
        ...


class Folder:
    """A folder of this machine that the file service shares under a URL."""

    def __init__(self, folder: str, url: str) -> None:
        self._folder = Path(folder)
        self._url = url.rstrip("/")

    def offer(self, table: pa.Table, name: str) -> dict[str, Any]:
        """Write the file beside its name, then give it its name: it is there whole or not."""
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f".{name}.part"
        told = _write(table, part)
        part.replace(self._folder / name)
        return {"file": f"{self._url}/{name}", **told}


class FileService:
    """A folder of the file service that may be written to."""

    def __init__(self, connect: Callable[[], Client], url: str) -> None:
        self._connect = connect
        self._url = url.rstrip("/")

    def offer(self, table: pa.Table, name: str) -> dict[str, Any]:
        """Write the file here and put it there."""
        with tempfile.TemporaryDirectory(prefix="dragoman-spark-") as folder:
            path = Path(folder, name)
            told = _write(table, path)
            url = f"{self._url}/{name}"
            try:
                with self._connect() as client:
                    Files(client).put(path, url)
            except DragomanError as error:
                raise TooMuch(f"the result could not be put at {url}: {error}") from None
        return {"file": url, **told}


def _write(table: pa.Table, path: Path) -> dict[str, Any]:
    pq.write_table(table, path, compression="zstd")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def reply(table: pa.Table, limits: LimitsSection, place: Place | None, name: str) -> dict[str, Any]:
    """Return what the client gets for a result. Raises `TooMuch`."""
    if table.num_rows > limits.rows or table.nbytes > limits.bytes:
        raise TooMuch(
            f"the result has more than {limits.rows:,} rows or {limits.bytes:,} bytes; "
            f"aggregate it, or add a LIMIT"
        )
    told = {"columns": _columns(table), "count": table.num_rows}
    if table.num_rows <= limits.reply_rows and table.nbytes <= limits.reply_bytes:
        return {**told, "rows": _rows(table)}
    if place is None:
        raise TooMuch(
            f"{table.num_rows:,} rows of {table.nbytes:,} bytes are more than a reply holds "
            f"({limits.reply_rows:,} rows, {limits.reply_bytes:,} bytes), and this worker "
            f"has no place for files; add a LIMIT, or start it with --results"
        )
    return {**told, **place.offer(table, f"{name}.parquet")}


def _columns(table: pa.Table) -> list[dict[str, str]]:
    return [{"name": field.name, "type": str(field.type)} for field in table.schema]


def _rows(table: pa.Table) -> list[list[Any]]:
    """Return rows as lists: columns of a result may share a name."""
    columns = [column.to_pylist() for column in table.columns]
    plain = msgspec.to_builtins(
        [list(row) for row in zip(*columns, strict=True)], builtin_types=_BYTES
    )
    return list(plain)
