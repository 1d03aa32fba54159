"""Jobs one by one: call, submit, result, cancel, why."""

import json
from typing import Any

import typer

from dragoman.cli.output import AS_JSON, URL, print_json, print_rows
from dragoman.model.content import Call
from dragoman.sdk.blocking import Client, Job
from dragoman.sdk.errors import Unreachable
from dragoman.sdk.jobs import Chunk, Progress

SERVICE = typer.Argument(help="The service to call.")
TASK = typer.Argument("", help="The task of that service.")
ARGUMENTS = typer.Argument(
    "", metavar="[JSON]", help="Arguments: an object (by name), a list (by position) or a value."
)
TARGET = typer.Option("any", help="any, all, worker names a,b, labels:EXPR or resource:NAME.")
TIMEOUT = typer.Option(60.0, help="Seconds the job may take.")
WAIT = typer.Option(60.0, "--timeout", help="Seconds to wait; the job continues after that.")
PRIORITY = typer.Option(0, help="Orders your own jobs; higher first.")
KEY = typer.Option("", help="Idempotency key: the same key again is the same job.")
CONNECT = typer.Option(5.0, help="Seconds to wait for the broker's acknowledgement.")
JOB = typer.Argument(help="The job's id.")
MANAGEMENT = "mmi.service.broker"


def call(
    service: str = SERVICE,
    task: str = TASK,
    arguments: str = ARGUMENTS,
    url: str = URL,
    target: str = TARGET,
    timeout: float = TIMEOUT,
    priority: int = PRIORITY,
    key: str = KEY,
    connect: float = CONNECT,
) -> None:
    """Submit a job, wait, and print its result as JSON. Progress goes to standard error.

    `dragoman call math add '{"x": 2, "y": 3}'` calls any worker, with arguments by name.
    With `--target all` every worker runs it, and the result is an object by worker name.
    """
    with Client(url) as client:
        said = _call(task, arguments, timeout)
        job = client.order(service, said, target, priority=priority, key=key)
        if client.is_acknowledged:
            _wait_for_acknowledgement(job, url, connect)
        for event in job.events():
            if isinstance(event, Progress):
                typer.echo(f"{event.worker}: {_progress_text(event.event)}", err=True)
            elif isinstance(event, Chunk):
                typer.echo(event.data, nl=False)
        print_json(job.result(timeout + 5.0))


def submit(
    service: str = SERVICE,
    task: str = TASK,
    arguments: str = ARGUMENTS,
    url: str = URL,
    target: str = TARGET,
    timeout: float = TIMEOUT,
    priority: int = PRIORITY,
    key: str = KEY,
    connect: float = CONNECT,
) -> None:
    """Submit a job and print its id as soon as the broker has acknowledged it.

    The job survives if this machine goes away: `dragoman result JOB` waits for the result,
    `dragoman why JOB` explains its state, `dragoman cancel JOB` stops it.
    """
    with Client(url) as client:
        if not client.is_acknowledged:
            raise ValueError(f"{url} uses a dialect without acknowledgements; use `dragoman call`")
        said = _call(task, arguments, timeout)
        job = client.order(service, said, target, priority=priority, key=key)
        _wait_for_acknowledgement(job, url, connect)
        typer.echo(job.id)


def _wait_for_acknowledgement(job: Job, url: str, at_most: float) -> None:
    if not job.wait_until_acknowledged(at_most):
        message = f"{url} did not answer within {at_most:g} s; is `dragoman up` running there?"
        raise Unreachable(message)


def _call(task: str, arguments: str, timeout: float) -> Call:
    """Read the arguments: an object is by name, a list by position, else a single argument."""
    try:
        value = json.loads(arguments) if arguments else {}
    except json.JSONDecodeError as error:
        raise ValueError(f"the arguments are not JSON: {error}") from None
    if isinstance(value, dict):
        return Call(task, (), value, timeout=timeout)
    return Call(task, tuple(value) if isinstance(value, list) else (value,), timeout=timeout)


def _progress_text(event: Any) -> str:
    if isinstance(event, dict) and "message" in event:
        return str(event["message"])
    return json.dumps(event, ensure_ascii=False, default=str)


def result(job: str = JOB, url: str = URL, timeout: float = WAIT) -> None:
    """Wait for a job's result and print it, also if another client submitted it."""
    with Client(url) as client:
        print_json(client.job(job).result(timeout))


def cancel(job: str = JOB, url: str = URL) -> None:
    """Cancel a job and print the outcome."""
    with Client(url) as client:
        typer.echo(client.job(job).cancel())


def why(job: str = JOB, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Explain a job's state.

    Prints which worker runs it or what it waits for, the attempts so far, and why each candidate
    worker does not have it.
    """
    with Client(url) as client:
        found = client.call(MANAGEMENT, "why", job, timeout=10.0)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{found['reason']}: {found['words']}")
        if found.get("candidates"):
            print_rows(found["candidates"], as_json, "")


def forget(service: str = SERVICE, url: str = URL) -> None:
    """Drop the memoised answers of a service: the next call runs again."""
    with Client(url) as client:
        client.call(MANAGEMENT, "forget_answers", service, timeout=10.0)
    typer.echo(f"dropped the memoised answers of {service}")
