"""Calls of the broker by commands: one question, an answer soon, or the reason why not."""

from typing import Any, Final

from dragoman.model.content import Call
from dragoman.sdk.blocking import Client, Job
from dragoman.sdk.diagnosis import diagnose, find_obstacle
from dragoman.sdk.errors import Unreachable
from dragoman.sdk.url import parse_url

MANAGEMENT: Final = "mmi.service.broker"
#: Seconds that the broker may take to acknowledge.
CONNECT_TIMEOUT: Final = 3.0
_TIMEOUT: Final = 10.0


def ask_broker(url: str, task: str, *args: Any, service: str = MANAGEMENT, **kwargs: Any) -> Any:
    """Call a task of a built-in service. Raises `Unreachable` with the cause within seconds."""
    with Client(url) as client:
        job = start_job(client, url, service, Call(task, args, kwargs, timeout=_TIMEOUT))
        return job.result(_TIMEOUT + 5.0)


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
    if client.is_acknowledged and not job.wait_until_acknowledged(connect):
        raise Unreachable(diagnose(parse_url(url), connect))
    return job


def require_broker(url: str) -> None:
    """Raise `Unreachable` with the cause if nothing can answer at a URL."""
    if obstacle := find_obstacle(parse_url(url), CONNECT_TIMEOUT):
        raise Unreachable(obstacle)
