"""`dragoman schedule`, `dead`, `pause`, `resume`: the task queue."""

from collections.abc import Mapping
from typing import Any, Final

import typer

from dragoman.cli.broker_call import ask_broker
from dragoman.cli.jobs import read_arguments
from dragoman.cli.output import AS_JSON, URL, ago, local_time, print_json, print_rows

schedule_app = typer.Typer(
    no_args_is_help=True, help="Schedules: jobs that the broker submits by itself."
)
dead_app = typer.Typer(
    no_args_is_help=True, help="Dead letters: jobs that died, or failed although they had retries."
)
NAME = typer.Argument(help="The schedule's name.")
JOB = typer.Argument(help="The job's id.")
SERVICE = typer.Option("", help="Only of this service.")
FAULT = typer.Option("", help="Only with this fault: task_failed, exhausted, ...")
OLDER = typer.Option(0.0, min=0.0, help="Only those that ended so many seconds ago, or earlier.")
_DEAD: Final = ("job", "service", "task", "state", "fault", "attempts")


# --- schedules --------------------------------------------------------------------------------


@schedule_app.command("add")
def add_schedule(
    name: str = NAME,
    service: str = typer.Argument(help="The service to call."),
    task: str = typer.Argument("", help="The task of that service."),
    arguments: str = typer.Argument("", metavar="[JSON]", help="Arguments, as in `call`."),
    cron: str = typer.Option("", help="When: a cron expression, such as '0 3 * * *'."),
    zone: str = typer.Option("UTC", help="The time zone of the cron expression."),
    every: int = typer.Option(0, min=0, help="Or: every so many seconds."),
    target: str = typer.Option("any", help="any, all, worker names a,b, labels:EXPR."),
    timeout: float | None = typer.Option(None, help="Seconds that each job may take."),
    retries: int | None = typer.Option(None, min=0, help="How often a task that fails runs again."),
    catch_up: str = typer.Option("last", help="Missed ticks after an outage: none, last or all."),
    overlap: str = typer.Option("skip", help="If the last job has not ended: skip or allow."),
    jitter: float = typer.Option(0.0, help="Jobs start up to so many seconds after their tick."),
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Add a schedule, or replace the one of the same name.

    `dragoman schedule add nightly reports build --cron '0 3 * * *' --zone Europe/Berlin`
    """
    args, kwargs = read_arguments(arguments)
    wanted: dict[str, object] = {"cron": cron, "zone": zone, "every": every, "target": target}
    wanted |= {"timeout": timeout, "catch_up": catch_up, "overlap": overlap, "jitter": jitter}
    wanted |= {"options": {} if retries is None else {"retries": retries}}
    wanted |= {"args": list(args), "kwargs": kwargs}
    wanted |= {"name": name, "service": service, "task": task}
    row = ask_broker(url, "add_schedule", wanted)
    _print_schedules([row], as_json)


@schedule_app.command("list")
def list_schedules(url: str = URL, as_json: bool = AS_JSON) -> None:
    """List the schedules with their last and next runs."""
    _print_schedules(ask_broker(url, "list_schedules"), as_json)


@schedule_app.command("pause")
def pause_schedule(name: str = NAME, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Let a schedule make no jobs until it is resumed."""
    _print_schedules([ask_broker(url, "pause_schedule", name)], as_json)


@schedule_app.command("resume")
def resume_schedule(name: str = NAME, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Let a schedule make jobs again."""
    _print_schedules([ask_broker(url, "resume_schedule", name)], as_json)


@schedule_app.command("run")
def run_schedule(name: str = NAME, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Submit the job of a schedule now, beside its ticks; print the job's id."""
    _print_job(ask_broker(url, "run_schedule", name), as_json)


@schedule_app.command("remove")
def remove_schedule(name: str = NAME, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Remove a schedule. Its jobs go on."""
    print_rows([ask_broker(url, "remove_schedule", name)], as_json, "")


def _print_schedules(rows: list[dict[str, object]], as_json: bool) -> None:
    shown = rows if as_json else [_schedule(row) for row in rows]
    print_rows(shown, as_json, "no schedules; `dragoman schedule add` adds one")


def _schedule(row: Mapping[str, Any]) -> dict[str, object]:
    """Return a schedule for people."""
    when = f"{row['cron']} ({row['zone']})" if row["cron"] else f"every {row['every']} s"
    upcoming = local_time(row["next_tick"]) if row["next_tick"] else ""
    return {
        "name": row["name"],
        "when": when,
        "service": row["service"],
        "task": row["task"],
        "last": local_time(row["last_tick"]) if row["last_tick"] else "never",
        "last state": row["last_state"],
        "next": "paused" if row["is_paused"] else upcoming,
    }


# --- dead letters -----------------------------------------------------------------------------


@dead_app.command("list")
def list_dead(
    service: str = SERVICE,
    fault: str = FAULT,
    older: float = OLDER,
    limit: int = typer.Option(100, min=1, help="Most letters to list."),
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """List dead letters, the newest first."""
    rows = ask_broker(url, "list_dead", service, fault, older, limit)
    people = [{**{k: row[k] for k in _DEAD}, "ended": ago(row["ended_at"])} for row in rows]
    print_rows(rows if as_json else people, as_json, "no dead letters")


@dead_app.command("show")
def show_dead(job: str = JOB, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Print a dead letter with the history of its attempts, as JSON."""
    print_json(ask_broker(url, "show_dead", job))


@dead_app.command("retry")
def retry_dead(
    job: str = typer.Argument("", help="The job's id; without it, all that the filters select."),
    service: str = SERVICE,
    fault: str = FAULT,
    older: float = OLDER,
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Submit dead letters again, each as a new job that is linked to the old one."""
    found = [
        ask_broker(url, "retry_dead", each) for each in _chosen(url, job, service, fault, older)
    ]
    print_rows(found, as_json, "no dead letters")


@dead_app.command("drop")
def drop_dead(
    job: str = typer.Argument("", help="The job's id; without it, all that the filters select."),
    service: str = SERVICE,
    fault: str = FAULT,
    older: float = OLDER,
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Drop dead letters. The ledger keeps their history."""
    found = [
        ask_broker(url, "drop_dead", each) for each in _chosen(url, job, service, fault, older)
    ]
    print_rows(found, as_json, "no dead letters")


def _chosen(url: str, job: str, service: str, fault: str, older: float) -> list[str]:
    """Return the named job, or all that the filters select."""
    if job:
        return [job]
    if not (service or fault or older):
        raise ValueError("name a job, or filter with --service, --fault or --older")
    found = ask_broker(url, "list_dead", service, fault, older, 10_000)
    return [row["job"] for row in found]


# --- flow -------------------------------------------------------------------------------------


def pause(
    service: str = typer.Argument(help="The service."),
    reason: str = typer.Option("", help="For people who ask why."),
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Dispatch no jobs of a service until it is resumed. Running jobs go on, new ones wait."""
    print_rows([ask_broker(url, "pause_service", service, reason)], as_json, "")


def resume(
    service: str = typer.Argument(help="The service."), url: str = URL, as_json: bool = AS_JSON
) -> None:
    """Dispatch the jobs of a paused service again."""
    print_rows([ask_broker(url, "resume_service", service)], as_json, "")


def drain(
    worker: str = typer.Argument("", help="The worker's name. Without one: list the drained."),
    reason: str = typer.Option("", help="For people who ask why."),
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Give a worker no more jobs until it is undrained. It finishes what it holds."""
    if worker:
        print_rows([ask_broker(url, "drain_worker", worker, reason)], as_json, "")
    else:
        print_rows(ask_broker(url, "list_drained"), as_json, "no drained workers")


def undrain(
    worker: str = typer.Argument(help="The worker's name."), url: str = URL, as_json: bool = AS_JSON
) -> None:
    """Give a drained worker jobs again."""
    print_rows([ask_broker(url, "undrain_worker", worker)], as_json, "")


def _print_job(found: dict[str, object], as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        typer.echo(found["job"])
