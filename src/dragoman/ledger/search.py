"""Searches of the SQLite ledger for people: newest first, filtered, bounded.

Functions of a connection. They verify no checksums: `reading` does, for whoever decides by what it
reads. A search looks at a bounded number of records, in short transactions, so that it neither
holds up the log nor runs for long.
"""

from collections.abc import Callable, Iterator
from typing import Final

import apsw

from dragoman.ledger.layout import CHUNK_BITS, select_of_job
from dragoman.ledger.rows import FIELDS, Row, select, to_records
from dragoman.model.job import FINAL
from dragoman.model.record import Kind, Record
from dragoman.model.search import HistoryFilter, HistoryPage

#: Records looked at in one transaction, and in one search.
WINDOW: Final = 50_000
LONGEST_SEARCH: Final = 500_000

_END: Final = select_of_job([f"r.{name}" for name in FIELDS], "AND r.kind = 'ended' LIMIT 1")
_LAST: Final = select(
    ("kind", "worker", "attempt"),
    f"FROM records INDEXED BY by_job WHERE seq >> {CHUNK_BITS} = ?1 AND job = ?2 AND job != ''"
    " AND kind IN ('dispatched', 'requeued') ORDER BY seq DESC LIMIT 1",
)

#: The beginning of the id of the broker itself as a client.
OWN: Final = "local/"
#: Field of the filter -> condition.
_EQUAL: Final = ("service", "task", "worker", "principal", "fault", "state")
_TEXT: Final = " || ' ' || ".join(("job", "task", "client", "worker", "detail"))


def search_records(
    connection: apsw.Connection, wanted: HistoryFilter, before: int, limit: int
) -> HistoryPage:
    """Return the newest records before a position (0: the end) that a filter wants."""
    return _search(connection, _conditions(wanted, wanted.kinds), before, limit, _plain)


def search_jobs(
    connection: apsw.Connection, wanted: HistoryFilter, before: int, limit: int
) -> HistoryPage:
    """Return the newest jobs before a position: by their end if it is asked for, else by start."""
    if wanted.state in FINAL or wanted.fault or wanted.worker or wanted.worker_link:
        conditions = _conditions(wanted, (Kind.ENDED,))
        return _search(connection, conditions, before, limit, _ended_job)
    last = _last_seq(connection)

    def row(record: Record) -> dict[str, object]:
        return _submitted_job(connection, record, last)

    return _search(connection, _conditions(wanted, (Kind.SUBMITTED,)), before, limit, row)


def _conditions(wanted: HistoryFilter, kinds: tuple[str, ...]) -> list[tuple[str, list[object]]]:
    """Return the conditions of a filter, each with its values."""
    found: list[tuple[str, list[object]]] = []
    if kinds:
        found.append((f"kind IN ({', '.join('?' * len(kinds))})", [str(k) for k in kinds]))
    found += [(f"{name} = ?", [text]) for name in _EQUAL if (text := getattr(wanted, name))]
    if wanted.client:
        found.append(("(client = ? OR instr(client, ?) > 0)", [wanted.client, wanted.client]))
    if wanted.dialect:
        found.append(("substr(client, 1, ?) = ?", [len(wanted.dialect) + 1, f"{wanted.dialect}/"]))
    if wanted.worker_link:
        start = f"{wanted.worker_link}/"
        found.append(("substr(peer, 1, ?) = ?", [len(start), start]))
    if wanted.text:
        found.append((f"instr(lower({_TEXT}), ?) > 0", [wanted.text.lower()]))
    if wanted.without and not wanted.service:
        marks = ", ".join("?" * len(wanted.without))
        found.append((f"service NOT IN ({marks})", list(wanted.without)))
    if wanted.without and not wanted.client:
        found.append((f"substr(client, 1, {len(OWN)}) != '{OWN}'", []))
    found += [("at >= ?", [wanted.since])] if wanted.since else []
    found += [("at <= ?", [wanted.until])] if wanted.until else []
    return found


def _search(
    connection: apsw.Connection,
    conditions: list[tuple[str, list[object]]],
    before: int,
    limit: int,
    row: Callable[[Record], dict[str, object]],
) -> HistoryPage:
    tests = "".join(f" AND {text}" for text, _ in conditions)
    values = [value for _, each in conditions for value in each]
    # Conditions are texts of this module; what a person typed is bound as a value.
    query = select(
        FIELDS, f"FROM records WHERE seq < ? AND seq >= ?{tests} ORDER BY seq DESC LIMIT ?"
    )
    found: list[Record] = []
    top = before or _last_seq(connection) + 1
    low = max(0, top - LONGEST_SEARCH)
    for high, bottom in _windows(top, low):
        rows: list[Row] = connection.execute(
            query, (high, bottom, *values, limit - len(found))
        ).fetchall()
        found += to_records(rows)
        top = bottom
        if len(found) >= limit:
            top = found[-1].seq
            break
    first, at = _oldest(connection, top)
    return HistoryPage(tuple(row(r) for r in found), top if top > first else 0, at)


def _windows(top: int, low: int) -> Iterator[tuple[int, int]]:
    while top > low:
        bottom = max(low, top - WINDOW)
        yield top, bottom
        top = bottom


def _last_seq(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM records").get)


def _oldest(connection: apsw.Connection, seq: int) -> tuple[int, float]:
    """Return the oldest position, and the time of the first record from `seq` on."""
    first = int(connection.execute("SELECT coalesce(min(seq), 0) FROM records").get)
    at = connection.execute("SELECT at FROM records WHERE seq >= ? LIMIT 1", (seq,)).get
    return first, float(at or 0.0)


def _plain(record: Record) -> dict[str, object]:
    return {name: value for name in FIELDS if (value := getattr(record, name)) not in ("", 0)}


def _ended_job(record: Record) -> dict[str, object]:
    return _job(record) | {
        "state": record.state,
        "fault": record.fault,
        "detail": record.detail,
        "worker": record.worker,
        "attempts": record.attempt,
        "ended_at": record.at,
    }


def _submitted_job(connection: apsw.Connection, record: Record, last: int) -> dict[str, object]:
    """Return a job with its end, or, while it is open, with its last known worker."""
    chunk = record.seq >> CHUNK_BITS
    rows: list[Row] = connection.execute(_END, (chunk, last >> CHUNK_BITS, record.job)).fetchall()
    if rows:
        return _ended_job(to_records(rows)[0]) | {"seq": record.seq, "at": record.at}
    found: list[Row] = connection.execute(_LAST, (chunk, record.job)).fetchall()
    is_running = bool(found) and found[0][0] == Kind.DISPATCHED
    open_job = {"state": "running" if is_running else "queued", "fault": "", "detail": ""}
    return (
        _job(record)
        | open_job
        | {
            "worker": found[0][1] if is_running else "",
            "attempts": found[0][2] if found else 0,
            "ended_at": 0.0,
        }
    )


def _job(record: Record) -> dict[str, object]:
    return {
        "seq": record.seq,
        "at": record.at,
        "job": record.job,
        "service": record.service,
        "task": record.task,
        "client": record.client,
        "principal": record.principal,
        "submitted_at": record.submitted_at or record.at,
    }
