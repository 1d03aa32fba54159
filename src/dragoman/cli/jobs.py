"""Jobs one by one: call, submit, result, cancel, why."""

import json
from typing import Any

import typer

from dragoman.cli.output import AS_JSON, URL, print_json, print_rows
from dragoman.model.content import Call
from dragoman.sdk.blocking import Client, Job
from dragoman.sdk.errors import Unreachable
from dragoman.sdk.jobs import Chunk, Progress

SERVICE = typer.Argument(help="The service to ask.")
TASK = typer.Argument("", help="The task of that service.")
ARGUMENTS = typer.Argument(
    "", metavar="[JSON]", help="Arguments: an object (by name), a list (by position) or a value."
)
TARGET = typer.Option("any", help="any, all, worker names a,b, labels:EXPR or resource:NAME.")
TIMEOUT = typer.Option(60.0, help="Seconds the job may take.")
WAIT = typer.Option(60.0, "--timeout", help="Seconds to wait for it; the job goes on all the same.")
PRIORITY = typer.Option(0, help="Orders your own jobs; higher first.")
KEY = typer.Option("", help="Idempotency key: the same key again is the same job.")
CONNECT = typer.Option(5.0, help="Seconds to wait for the broker to answer at all.")
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
    """Ask for work, wait, and print the answer as JSON. Progress goes to standard error.

    `dragoman call math add '{"x": 2, "y": 3}'` asks any worker, with arguments by name.
    With `--target all` every worker is asked, and the answer is an object by worker name.
    """
    with Client(url) as client:
        said = _call(task, arguments, timeout)
        job = client.order(service, said, target, priority=priority, key=key)
        if client.is_acknowledged:
            _wait_for_the_broker(job, url, connect)
        for event in job.events():
            if isinstance(event, Progress):
                typer.echo(f"{event.worker}: {_words(event.event)}", err=True)
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
    """Ask for work and print the job's id as soon as the broker has it.

    Nothing is lost if this machine goes away then: `dragoman result JOB` waits for the answer,
    `dragoman why JOB` says where it is, `dragoman cancel JOB` stops it.
    """
    with Client(url) as client:
        if not client.is_acknowledged:
            raise ValueError(f"{url} speaks a dialect that acknowledges nothing; use `call`")
        said = _call(task, arguments, timeout)
        job = client.order(service, said, target, priority=priority, key=key)
        _wait_for_the_broker(job, url, connect)
        typer.echo(job.id)


def _wait_for_the_broker(job: Job, url: str, at_most: float) -> None:
    if not job.wait_until_acknowledged(at_most):
        words = f"{url} did not answer within {at_most:g} s; is `dragoman up` running there?"
        raise Unreachable(words)


def _call(task: str, arguments: str, timeout: float) -> Call:
    """Read the arguments: an object is by name, a list by position, anything else the only one."""
    try:
        said = json.loads(arguments) if arguments else {}
    except json.JSONDecodeError as error:
        raise ValueError(f"the arguments are not JSON: {error}") from None
    if isinstance(said, dict):
        return Call(task, (), said, timeout=timeout)
    return Call(task, tuple(said) if isinstance(said, list) else (said,), timeout=timeout)


def _words(event: Any) -> str:
    if isinstance(event, dict) and "message" in event:
        return str(event["message"])
    return json.dumps(event, ensure_ascii=False, default=str)


def result(job: str = JOB, url: str = URL, timeout: float = WAIT) -> None:
    """Wait for a job's result and print it; any client may ask."""
    with Client(url) as client:
        print_json(client.job(job).result(timeout))


def cancel(job: str = JOB, url: str = URL) -> None:
    """Stop a job, and print what became of it."""
    with Client(url) as client:
        typer.echo(client.job(job).cancel())


def why(job: str = JOB, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Say why a job is where it is.

    Who runs it or whom it waits for, what was tried before, and why each worker that could do it
    does not have it.
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
    """Make the memoised answers of a service void: the next question is worked out anew."""
    with Client(url) as client:
        client.call(MANAGEMENT, "forget_answers", service, timeout=10.0)
    typer.echo(f"the answers of {service} are forgotten")
