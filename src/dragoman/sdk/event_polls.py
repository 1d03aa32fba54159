"""Events for dialects that cannot push them: the client polls the broker's management."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from dragoman.dialects.peer_sides import Published
from dragoman.model.fault import FaultCode
from dragoman.sdk.errors import JobFailed, StillRunning, Unreachable

#: Seconds that one poll for events waits at the broker.
PULL_WAIT: Final = 20.0
#: Events of one page.
PAGE: Final = 500
#: Seconds between two polls if the broker answers at once and has nothing.
PAUSE: Final = 1.0
#: Faults after which a poll is repeated: the broker restarts, or is slow.
_TRANSIENT: Final = frozenset(
    {FaultCode.DRAINING, FaultCode.NO_WORKER, FaultCode.JOB_TIMEOUT, FaultCode.WORKER_LOST}
)

#: Asks the broker's management for a page of events.
AskForEvents = Callable[..., Awaitable[Mapping[str, Any]]]


async def poll_events(
    ask: AskForEvents, topics: tuple[str, ...], after: int
) -> AsyncIterator[Published]:
    """Yield events whose topic matches a glob, after a ledger position."""
    now = asyncio.get_running_loop().time
    while True:
        asked_at = now()
        try:
            page = await ask(after=after, topics=list(topics), limit=PAGE, wait=PULL_WAIT)
        except (JobFailed, StillRunning, Unreachable) as error:
            if isinstance(error, JobFailed) and error.fault.code not in _TRANSIENT:
                raise
            page = {"after": after, "events": []}
        for found in page["events"]:
            yield Published(found["seq"], found["topic"], found["event"])
        if not page["events"] and now() - asked_at < PAUSE and page["after"] == after:
            await asyncio.sleep(PAUSE)
        after = page["after"]
