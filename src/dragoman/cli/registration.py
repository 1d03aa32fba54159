"""What `dragoman worker` says about its registration: that it has one, or why not yet."""

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from dragoman.sdk.diagnosis import diagnose

if TYPE_CHECKING:
    from dragoman.sdk.worker import Worker

log = structlog.get_logger("dragoman.worker")

#: Seconds before the first look for the reason; each further pause is twice as long.
_FIRST_LOOK: Final = 2.0
_LONGEST_PAUSE: Final = 60.0
_TICK: Final = 0.05


async def report_registration(worker: "Worker", first_look: float = _FIRST_LOOK) -> None:
    """Log once that the broker has confirmed the worker; until then, log why it has not."""
    loop = asyncio.get_running_loop()
    pause, started = first_look, loop.time()
    look_at = started + pause
    while not worker.is_registered:
        await asyncio.sleep(_TICK)
        if loop.time() >= look_at and not worker.is_registered:
            reason = await asyncio.to_thread(diagnose, worker.endpoint)
            log.warning("not registered yet", worker=worker.name, reason=reason)
            pause = min(pause * 2, _LONGEST_PAUSE)
            look_at = loop.time() + pause
    log.info("registered", worker=worker.name, broker=str(worker.endpoint))
