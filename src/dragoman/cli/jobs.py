"""Jobs one by one: call, submit, result, cancel, why."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

import typer

from dragoman.cli.broker_call import ask_broker, require_broker, result_of, start_job
from dragoman.cli.output import AS_JSON, URL, duration, print_json, print_rows
from dragoman.model.content import Call
from dragoman.model.limit import Limit, read_limit
from dragoman.sdk.blocking import Client, Job
from dragoman.sdk.calls import CallOptions
from dragoman.sdk.cancel_outcomes import UNCONFIRMED
from dragoman.sdk.diagnosis import other_owner
from dragoman.sdk.errors import DragomanError, StillRunning
from dragoman.sdk.jobs import Chunk, Progress
from dragoman.sdk.url import parse_url

SERVICE = typer.Argument(help="The service to call.")
TASK = typer.Argument("", help="The task of that service.")
ARGUMENTS = typer.Argument(
    "", metavar="[JSON]", help="Arguments: an object (by name), a list (by position) or a value."
)
TARGET = typer.Option("any", help="any, all, worker names a,b, labels:EXPR or resource:NAME.")
TIMEOUT = typer.Option(60.0, help="Seconds the job may take.")
WAIT = typer.Option(60.0, "--timeout", help="Seconds to wait; the job continues after that.")
PRIORITY = typer.Option(0, help="Orders your own jobs; higher first.")
RETRIES = typer.Option(
    None, min=0, help="How often a task that fails runs again; waits 1, 2, 4 s. 0: never."
)
LIMIT = typer.Option(
    "",
    metavar="[JSON]",
    help='A limit shared with other jobs: \'{"key": "user:42", "concurrency": 2}\'.',
)
UNIQUE = typer.Option(
    "",
    metavar="KEY|JSON",
    help='Refuse the job while another has this key; \'{"key": K, "quiet": 5}\' replaces it.',
)
RESULT_TTL = typer.Option(
    None, min=0.001, help="Seconds after the job's end in which its result is given out."
)
WEBHOOK = typer.Option(
    "", metavar="URL", help="Gets the job's end; its host is in the broker's `[webhooks] hosts`."
)
DELAY = typer.Option(0.0, min=0.0, help="Seconds before the job may start.")
AT = typer.Option(
    None,
    formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"],
    help="The local time before which the job does not start.",
)
KEY = typer.Option("", help="Idempotency key: the same key again is the same job.")
CONNECT = typer.Option(3.0, help="Seconds to wait for the broker's acknowledgement.")
JOB = typer.Argument(help="The job's id.")
#: Seconds of waiting after which `call` prints what it waits for.
_EXPLAIN_AFTER: Final = 2.0
#: Seconds after the job's timeout in which the broker may report its end.
_MARGIN: Final = 5.0
_INTERRUPTED: Final = 130
_UNKNOWN: Final = "unknown"


def call(
    service: str = SERVICE,
    task: str = TASK,
    arguments: str = ARGUMENTS,
    url: str = URL,
    target: str = TARGET,
    timeout: float = TIMEOUT,
    priority: int = PRIORITY,
    key: str = KEY,
    retries: int | None = RETRIES,
    limit: str = LIMIT,
    unique: str = UNIQUE,
    result_ttl: float | None = RESULT_TTL,
    webhook: str = WEBHOOK,
    connect: float = CONNECT,
    as_json: bool = AS_JSON,
) -> None:
    """Submit a job, wait, and print its result as JSON. Progress goes to standard error.

    `dragoman call math add '{"x": 2, "y": 3}'` calls any worker, with arguments by name.
    With `--target all` every worker runs it, and the result is an object by worker name.
    """
    with Client(url) as client:
        content = _call(task, arguments, timeout)
        more = CallOptions(
            retries=retries,
            limit=_limit(limit),
            unique=unique,
            result_ttl=result_ttl,
            webhook=webhook,
        ).more()
        terms = {"priority": priority, "key": key, "options": more}
        job = start_job(client, url, service, content, target, connect=connect, **terms)
        with _interruptible(job), _explained(job, url, client.is_acknowledged):
            deadline = time.monotonic() + timeout + _MARGIN
            for event in job.events(timeout + _MARGIN):
                if isinstance(event, Progress):
                    for line in _progress_text(event.event).splitlines():
                        typer.echo(f"{event.worker}: {line}", err=True)
                elif isinstance(event, Chunk):
                    typer.echo(event.data, nl=False)
            print_json(result_of(job, url, max(deadline - time.monotonic(), 0.0)))


def submit(
    service: str = SERVICE,
    task: str = TASK,
    arguments: str = ARGUMENTS,
    url: str = URL,
    target: str = TARGET,
    timeout: float = TIMEOUT,
    priority: int = PRIORITY,
    key: str = KEY,
    retries: int | None = RETRIES,
    limit: str = LIMIT,
    unique: str = UNIQUE,
    result_ttl: float | None = RESULT_TTL,
    webhook: str = WEBHOOK,
    delay: float = DELAY,
    at: datetime | None = AT,
    connect: float = CONNECT,
    as_json: bool = AS_JSON,
) -> None:
    """Submit a job and print its id as soon as the broker has acknowledged it.

    The job survives if this machine goes away: `dragoman result JOB` waits for the result,
    `dragoman why JOB` explains its state, `dragoman cancel JOB` stops it.
    """
    with Client(url) as client:
        if not client.is_acknowledged:
            raise ValueError(f"{url} uses a dialect without acknowledgements; use `dragoman call`")
        content = _call(task, arguments, timeout)
        more = CallOptions(
            retries=retries,
            limit=_limit(limit),
            unique=unique,
            delay=delay,
            at=at,
            result_ttl=result_ttl,
            webhook=webhook,
        ).more()
        terms = {"priority": priority, "key": key, "options": more}
        job = start_job(client, url, service, content, target, connect=connect, **terms)
        if job.is_done and not job.asynchronous.is_acknowledged:
            # The broker's first word was the end. If it refused the job, this raises the reason.
            job.result(timeout=0)
        if as_json:
            print_json({"job": job.id})
        else:
            typer.echo(job.id)


@contextmanager
def _interruptible(job: Job) -> Iterator[None]:
    """After Ctrl-C, print the job's id: the job continues."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(
            f"\ninterrupted; job {job.id} continues. `dragoman result {job.id}` waits for it,"
            f" `dragoman cancel {job.id}` stops it",
            err=True,
        )
        raise typer.Exit(_INTERRUPTED) from None


@contextmanager
def _explained(job: Job, url: str, is_acknowledged: bool) -> Iterator[None]:
    """Print what the job waits for, if it does not end soon."""

    def explain() -> None:
        if not is_acknowledged:
            _warn_of_silence(job, url)
            return
        found = _reason(job, url)
        if found and found["reason"] not in ("running", _UNKNOWN):
            typer.echo(f"waiting: {found['words']} (job {job.id})", err=True)

    timer = threading.Timer(_EXPLAIN_AFTER, explain)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _warn_of_silence(job: Job, url: str) -> None:
    """Say that the port may be of another dialect. This dialect need not acknowledge a job."""
    other = other_owner(parse_url(url))
    if other and not job.wait_until_acknowledged(0.0):
        typer.echo(f"waiting: no answer yet; {other} (job {job.id})", err=True)


def _reason(job: Job, url: str) -> dict[str, object]:
    try:
        return dict(ask_broker(url, "why", job.id))
    except (DragomanError, OSError):
        return {}


def _call(task: str, arguments: str, timeout: float) -> Call:
    args, kwargs = read_arguments(arguments)
    return Call(task, args, kwargs, timeout=timeout)


def _limit(text: str) -> Limit | None:
    try:
        return read_limit(text) if text else None
    except ValueError as error:
        raise ValueError(f"--limit: {error}") from None


def read_arguments(arguments: str) -> tuple[tuple[object, ...], dict[str, object]]:
    """Read the arguments: an object is by name, a list by position, else a single argument."""
    try:
        value = json.loads(arguments) if arguments else {}
    except json.JSONDecodeError as error:
        raise ValueError(f"the arguments are not JSON: {error}") from None
    if isinstance(value, dict):
        return (), value
    return (tuple(value) if isinstance(value, list) else (value,)), {}


def _progress_text(event: object) -> str:
    if isinstance(event, dict):
        for name in ("message", "log"):
            if name in event:
                return str(event[name])
    return json.dumps(event, ensure_ascii=False, default=str)


def result(job: str = JOB, url: str = URL, timeout: float = WAIT, as_json: bool = AS_JSON) -> None:
    """Wait for a job's result and print it, also if another client submitted it."""
    require_broker(url)
    with Client(url) as client:
        print_json(result_of(client.job(job), url, timeout))


def cancel(job: str = JOB, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Cancel a job and print the outcome.

    Exits with 1 if the broker does not know the job, and with 5 if its worker did not confirm.
    """
    found = _known(url, job)
    with Client(url) as client:
        outcome = client.job(job).cancel()
    if as_json:
        print_json({"job": job, "outcome": outcome, "before": found["reason"]})
    else:
        typer.echo(outcome)
    if outcome == UNCONFIRMED:
        raise StillRunning(f"job {job}: its worker did not confirm the cancel; it may still run")


def why(job: str = JOB, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Explain a job's state.

    Prints which worker runs it or what it waits for, the attempts so far, and why each candidate
    worker does not have it; and the job's parent and children, if it has some. Exits with 1 if the
    broker does not know the job.
    """
    found = _known(url, job)
    if as_json:
        print_json(found)
    else:
        typer.echo(_with_reason(found["reason"], found["words"]))
        if found.get("attempts"):
            print_rows([_attempt_row(each) for each in found["attempts"]], False, "")
        if found.get("candidates"):
            print_rows(found["candidates"], False, "")
        _print_tree(found)


def _with_reason(reason: str, words: str) -> str:
    """Name the reason, unless the words begin with it."""
    return words if words.startswith(reason) else f"{reason}: {words}"


def _attempt_row(attempt: Mapping[str, Any]) -> dict[str, object]:
    part = f", part {attempt['part']}" if attempt["part"] else ""
    until = attempt["ended_at"] or time.time()
    return {
        "attempt": f"{attempt['attempt']}{part}",
        "worker": attempt["worker"],
        "dialect": attempt["dialect"],
        "took": duration(max(0.0, until - attempt["began_at"])),
        "outcome": attempt["outcome"],
    }


def _print_tree(found: dict[str, Any]) -> None:
    """Print the parent of a job, and its children: counts, then those that matter most."""
    if found.get("parent"):
        typer.echo(f"child {found['position']} of job {found['parent']}")
    if states := found.get("child_states"):
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        typer.echo(f"children: {counts}")
        print_rows(found["children"], False, "")


def _known(url: str, job: str) -> dict[str, Any]:
    """Ask why; raise if the broker does not know the job."""
    found: dict[str, object] = ask_broker(url, "why", job)
    if found["reason"] == _UNKNOWN:
        raise DragomanError(found["words"])
    return found


def forget(service: str = SERVICE, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Drop the memoised answers of a service: the next call runs again."""
    ask_broker(url, "forget_answers", service)
    if as_json:
        print_json({"service": service})
    else:
        typer.echo(f"dropped the memoised answers of {service}")


def forget_result(job: str = JOB, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Have the broker give the result of a finished job out no more. The ledger keeps its records.

    `dragoman result JOB` then says when it was forgotten.
    """
    found = ask_broker(url, "forget_result", job)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"forgot the result of job {found['job']}")
