"""Questions of people about the ledger, answered outside the loop's thread.

One thread with a connection of its own answers them in order. Questions beyond `MOST_WAITING` are
refused, so that a hundred open dashboards cannot queue up work.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import apsw

from dragoman.dialects.base import BodyCodecs
from dragoman.ledger import layout, reading
from dragoman.ledger.base import LedgerError
from dragoman.ledger.damage import checked_blob
from dragoman.ledger.search import search_jobs, search_records
from dragoman.model.body import Body, unpack
from dragoman.model.content import Unmappable
from dragoman.model.record import Kind, Record
from dragoman.model.search import HistoryFilter, HistoryPage

T = TypeVar("T")

MOST_WAITING: Final = 64
#: Records whose body is a request; other bodies are answers.
_REQUESTS: Final = frozenset({Kind.SUBMITTED, Kind.FORWARDED})
#: Bytes of a body that are shown; the rest is for a download.
_SHOWN: Final = 256 * 1024


class LedgerQueries:
    """Reads one ledger file."""

    def __init__(self, path: Path, codecs: BodyCodecs) -> None:
        self._path = path
        self._codecs = codecs
        self._thread = ThreadPoolExecutor(1, "dragoman queries")
        self._connection: apsw.Connection | None = None
        self._waiting = 0

    async def jobs(self, wanted: HistoryFilter, before: int, limit: int) -> HistoryPage:
        """Search jobs."""
        return await self._run(lambda c: search_jobs(c, wanted, before, limit))

    async def records(self, wanted: HistoryFilter, before: int, limit: int) -> HistoryPage:
        """Search records."""
        return await self._run(lambda c: search_records(c, wanted, before, limit))

    async def history(self, job: str) -> list[Record]:
        """Return every record of a job."""
        return await self._run(lambda c: reading.history(c, job, _last(c)))

    async def body(self, record: Record) -> Body | None:
        """Return the body of a record."""
        blob = await self._run(lambda c: checked_blob(c, record.seq))
        return None if blob is None else unpack(blob)

    def content(self, record: Record, body: Body) -> dict[str, object]:
        """Return a body as people read it: its value, or its bytes."""
        raw = b"".join(body.parts)
        shown: dict[str, object] = {
            "dialect": body.dialect,
            "bytes": len(raw),
            "digest": record.digest,
        }
        codec = self._codecs.get(body.dialect)
        try:
            if codec is not None and record.kind in _REQUESTS:
                call = codec.read_call(body)
                found = {"task": call.task, "args": call.args, "kwargs": call.kwargs}
                return shown | ({"raw": call.raw} if call.raw is not None else {"call": found})
            if codec is not None:
                answer = codec.read_answer(body)
                if answer.fault is not None:
                    fault = {"code": answer.fault.code.value, "message": answer.fault.message}
                    return shown | {"fault": fault}
                found_raw = {"raw": answer.raw[:_SHOWN]} if answer.raw is not None else {}
                return shown | (found_raw or {"value": answer.value})
        except Unmappable as error:
            shown["note"] = str(error)
        return shown | {"raw": raw[:_SHOWN]}

    async def _run(self, function: Callable[[apsw.Connection], T]) -> T:
        if self._waiting >= MOST_WAITING:
            raise LedgerError("too many searches of the ledger are waiting; try again in a moment")
        self._waiting += 1
        try:
            running = asyncio.get_running_loop()
            return await running.run_in_executor(self._thread, lambda: function(self._open()))
        except apsw.Error as error:
            raise LedgerError(f"cannot search the ledger: {error}") from error
        finally:
            self._waiting -= 1

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            self._connection = layout.connect(self._path)
            self._connection.pragma("query_only", "on")
        return self._connection

    async def close(self) -> None:
        """Stop the thread and close the connection."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _last(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM records").get)
