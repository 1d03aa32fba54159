"""Many jobs at once: wait for all of them, gather their results, follow the records of some."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Protocol

from dragoman.dialects.peer_sides import Published
from dragoman.sdk.errors import StillRunning
from dragoman.sdk.jobs import AsyncJob

#: The topics of all records.
_RECORDS: Final = "broker.*"
_ENDED: Final = "broker.ended"


class Subscribes(Protocol):
    """What `follow` needs of a client."""

    def subscribe(self, *topics: str, after: int = -1) -> AsyncIterator[Published]:
        """Yield events."""
        ...


async def wait_for_all(
    jobs: Sequence[AsyncJob],
    timeout: float | None = None,  # noqa: ASYNC109
) -> tuple[list[AsyncJob], list[AsyncJob]]:
    """Wait until all have ended, or the time is over; return those that have, and the others."""
    waits = [asyncio.ensure_future(job.wait()) for job in jobs]
    try:
        if waits:
            await asyncio.wait(waits, timeout=timeout)
    finally:
        for each in waits:
            each.cancel()
    return [job for job in jobs if job.is_done], [job for job in jobs if not job.is_done]


async def gather_results(jobs: Sequence[AsyncJob], timeout: float | None = None) -> list[Any]:  # noqa: ASYNC109
    """Return the results in the order of the jobs. Raises the failure of the first that failed."""
    _, still_open = await wait_for_all(jobs, timeout)
    if still_open:
        raise StillRunning(
            f"{len(still_open)} of {len(jobs)} jobs have not ended within {timeout} s; the first "
            f"is {still_open[0].id}"
        )
    return [await job.result() for job in jobs]


async def follow(
    client: Subscribes, job: str = "", service: str = "", after: int = -1
) -> AsyncIterator[Published]:
    """Yield the records of one job, to its end, or of one service; `after` a ledger position."""
    if bool(job) == bool(service):
        raise ValueError("follow one job or one service: follow(job=...) or follow(service=...)")
    async for event in client.subscribe(_RECORDS, after=after):
        found = event.event
        if job and found.get("job") == job:
            yield event
            if event.topic == _ENDED:
                return
        elif service and found.get("service") == service:
            yield event
