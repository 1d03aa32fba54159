"""Calls of the broker by commands: one question, an answer soon, or the reason why not."""

from typing import Any, Final

from dragoman.model.content import Call
from dragoman.sdk.blocking import Client, Job
from dragoman.sdk.diagnosis import diagnose, find_obstacle, other_owner
from dragoman.sdk.errors import StillRunning, Unreachable
from dragoman.sdk.url import parse_url

MANAGEMENT: Final = "mmi.service.broker"
#: Seconds that the broker may take to acknowledge.
CONNECT_TIMEOUT: Final = 3.0
_TIMEOUT: Final = 10.0
#: Seconds without an acknowledgement before a look whether anything listens there.
_LOOK_AFTER: Final = 0.5
#: Seconds for an answer at a port that usually has another dialect.
_DOUBTFUL: Final = 5.0


def ask_broker(
    url: str,
    task: str,
    *args: object,
    service: str = MANAGEMENT,
    within: float = _TIMEOUT,
    **kwargs: object,
) -> Any:
    """Call a task of a built-in service. Raises `Unreachable` with the cause within seconds.

    The broker acknowledges such a job only with its result, so a slow task is no sign of trouble.
    """
    with Client(url) as client:
        job = client.order(service, Call(task, args, kwargs, timeout=within))
        if not job.wait_until_acknowledged(_LOOK_AFTER):
            require_broker(url)
        doubtful = other_owner(parse_url(url))
        return result_of(job, url, _DOUBTFUL if doubtful else within + 5.0)


def result_of(job: Job, url: str, timeout: float) -> Any:
    """Wait for a job's result. If the broker does not answer, say why."""
    try:
        return job.result(timeout)
    except Unreachable:
        raise Unreachable(f"job {job.id}: no answer; {diagnose(parse_url(url))}") from None
    except StillRunning as error:
        obstacle = find_obstacle(parse_url(url))
        raise StillRunning(f"{error}; {obstacle}" if obstacle else str(error)) from None


def start_job(
    client: Client,
    url: str,
    service: str,
    call: Call,
    target: str = "any",
    *,
    connect: float = CONNECT_TIMEOUT,
    **options: Any,
) -> Job:
    """Submit a job and wait for the acknowledgement, if the dialect has one."""
    if not client.is_acknowledged and (obstacle := find_obstacle(parse_url(url), connect)):
        raise Unreachable(obstacle)
    job = client.order(service, call, target, **options)
    if client.is_acknowledged:
        _await_acknowledgement(job, url, connect)
    return job


def _await_acknowledgement(job: Job, url: str, connect: float) -> None:
    """Wait for the acknowledgement. If nothing listens, do not wait longer than the default."""
    first = min(_LOOK_AFTER, connect)
    if job.wait_until_acknowledged(first):
        return
    if connect <= CONNECT_TIMEOUT and (obstacle := find_obstacle(parse_url(url), connect)):
        raise Unreachable(obstacle)
    if not job.wait_until_acknowledged(connect - first):
        raise Unreachable(diagnose(parse_url(url), connect))


def require_broker(url: str) -> None:
    """Raise `Unreachable` with the cause if nothing can answer at a URL."""
    if obstacle := find_obstacle(parse_url(url), CONNECT_TIMEOUT):
        raise Unreachable(obstacle)
