"""Listings of a broker's services, workers, clients, jobs and events."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import typer

from dragoman.cli.broker_call import ask_broker
from dragoman.cli.output import (
    AS_JSON,
    URL,
    ago,
    duration,
    local_time,
    print_json_line,
    print_rows,
)
from dragoman.model.job import JobState
from dragoman.sdk.blocking import Client

ALL = typer.Option(False, "--all", help="Also the broker's own services and the questions to them.")
#: The columns of the table; `--json` has all fields.
_WORKER: Final = ("name", "dialect", "services", "status", "holding", "silent_for", "alive_for")
_JOB: Final = ("job", "state", "service", "task", "workers", "attempts", "fault")


#: How a member is shown to people: its heading and its text.
_SHOWN: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "silent_for": ("silent for", duration),
    "alive_for": ("connected for", duration),
    "first_seen_at": ("first seen", local_time),
    "seen_at": ("last seen", ago),
}


def _ask(url: str, task: str, with_builtin: bool, **options: Any) -> Any:
    """Ask for rows. An older broker does not know the option, so it is sent only if it is set."""
    if with_builtin:
        options["with_builtin"] = True
    return ask_broker(url, task, **options)


def _short(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, object]:
    """Return the members for a table, with durations and local times."""
    found = {}
    for name in names:
        heading, write = _SHOWN.get(name, (name, None))
        found[heading] = row[name] if write is None or row[name] is None else write(row[name])
    return found


def services(all_: bool = ALL, url: str = URL, as_json: bool = AS_JSON) -> None:
    """List services with their workers and queued jobs."""
    print_rows(_ask(url, "list_services", all_), as_json, "no services; start a worker")


def workers(all_: bool = ALL, url: str = URL, as_json: bool = AS_JSON) -> None:
    """List workers, connected or away."""
    rows = _ask(url, "list_workers", all_)
    shown = rows if as_json else [_short(row, _WORKER) for row in rows]
    print_rows(shown, as_json, "no workers")


def clients(url: str = URL, as_json: bool = AS_JSON) -> None:
    """List the clients that sent something lately."""
    rows = ask_broker(url, "list_clients")
    print_rows(rows if as_json else [_short(row, row) for row in rows], as_json, "no clients")


def jobs(
    state: str = typer.Option("", help=f"Only jobs in this state: {', '.join(JobState)}."),
    limit: int = typer.Option(50, min=1, help="Most jobs to list."),
    all_: bool = ALL,
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """List jobs, the newest first."""
    if state and state not in tuple(JobState):
        raise ValueError(f"{state!r} is no job state; use {', '.join(JobState)}")
    rows = _ask(url, "show_jobs", all_, state=state, limit=limit)
    shown = rows if as_json else [_short(row, _JOB) for row in rows]
    print_rows(shown, as_json, "no jobs")


def events(
    topics: list[str] = typer.Argument(None, help="Topics or globs; all if none is given."),
    follow: bool = typer.Option(False, help="Wait for new events until interrupted."),
    from_seq: int = typer.Option(
        -1, "--from", help="Ledger position to start after; -1: new events only, 0: all."
    ),
    limit: int = typer.Option(0, help="Stop after this many events; 0: no limit."),
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Print the broker's events, one JSON object a line.

    Without --follow, prints the ledger's events after --from (0 if not given) and stops. Topics are
    `broker.KIND` for events of the broker (submitted, dispatched, ended, joined, left, ...).
    Workers publish under topics of their own.

    `dragoman events 'broker.*' --follow --from 0` prints all past and future events.
    """
    wanted = tuple(topics or ["*"])
    last = ask_broker(url, "show_totals")["records"]
    after = from_seq if follow else max(from_seq, 0)
    if not follow and after >= last:
        return
    shown = 0
    with Client(url) as client:
        # Without --follow, subscribe to all topics: the last record may have another topic.
        for event in client.subscribe(*(wanted if follow else ["*"]), after=after):
            if any(fnmatchcase(event.topic, glob) for glob in wanted):
                print_json_line({"seq": event.seq, "topic": event.topic, "event": event.event})
                shown += 1
            if (limit and shown >= limit) or (not follow and event.seq >= last):
                return
