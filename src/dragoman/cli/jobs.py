"""Jobs one by one: call, submit, result, cancel, why."""

import json
from typing import Any

import typer

from dragoman.cli.show import AS_JSON, URL, print_json
from dragoman.sdk.blocking import Client
from dragoman.sdk.errors import Unreachable
from dragoman.sdk.jobs import Chunk, Progress

SERVICE = typer.Argument(help="The service to ask.")
TASK = typer.Argument("", help="The task of that service.")
ARGUMENTS = typer.Argument(
    "", metavar="[JSON]", help="Arguments: an object (by name), a list (by position) or a value."
)
TARGET = typer.Option("any", help="any, all, worker names a,b, labels:EXPR or resource:NAME.")
TIMEOUT = typer.Option(60.0, help="Seconds the job may take.")
PRIORITY = typer.Option(0, help="Orders your own jobs; higher first.")
KEY = typer.Option("", help="Idempotency key: the same key again is the same job.")
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
) -> None:
    """Ask for work, wait, and print the answer as JSON. Progress goes to standard error."""
    with Client(url) as client:
        job = client.submit(
            service, task, *_args(arguments), target=target, timeout=timeout, priority=priority,
            key=key, **_kwargs(arguments),
        )  # fmt: skip
        for event in job.events():
            if isinstance(event, Progress):
                typer.echo(f"{event.worker}: {_words(event.event)}", err=True)
            elif isinstance(event, Chunk):
                typer.echo(event.data, nl=False)
        print_json(job.result(timeout + 5.0))


def _words(event: Any) -> str:
    if isinstance(event, dict) and "message" in event:
        return str(event["message"])
    return json.dumps(event, ensure_ascii=False, default=str)


def _parsed(arguments: str) -> Any:
    if not arguments:
        return {}
    try:
        return json.loads(arguments)
    except json.JSONDecodeError as error:
        raise ValueError(f"the arguments are not JSON: {error}") from None


def _args(arguments: str) -> tuple[Any, ...]:
    said = _parsed(arguments)
    if isinstance(said, dict):
        return ()
    return tuple(said) if isinstance(said, list) else (said,)


def _kwargs(arguments: str) -> dict[str, Any]:
    said = _parsed(arguments)
    return said if isinstance(said, dict) else {}


def submit(
    service: str = SERVICE,
    task: str = TASK,
    arguments: str = ARGUMENTS,
    url: str = URL,
    target: str = TARGET,
    timeout: float = TIMEOUT,
    priority: int = PRIORITY,
    key: str = KEY,
) -> None:
    """Ask for work and print the job's id as soon as the broker has it."""
    with Client(url) as client:
        job = client.submit(
            service, task, *_args(arguments), target=target, timeout=timeout, priority=priority,
            key=key, **_kwargs(arguments),
        )  # fmt: skip
        if not job.wait_until_acknowledged(10.0):
            raise Unreachable(f"no answer from {url} within 10 s; is `dragoman up` running there?")
        typer.echo(job.id)


def result(job: str = JOB, url: str = URL, timeout: float = TIMEOUT) -> None:
    """Wait for a job's result and print it; any client may ask."""
    with Client(url) as client:
        print_json(client.job(job).result(timeout))


def cancel(job: str = JOB, url: str = URL) -> None:
    """Stop a job, and print what became of it."""
    with Client(url) as client:
        typer.echo(client.job(job).cancel())


def why(job: str = JOB, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Say why a job is where it is."""
    with Client(url) as client:
        found = client.call(MANAGEMENT, "why", job=job, timeout=10.0)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{found['reason']}: {found['words']}")
