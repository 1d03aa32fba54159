"""Several workers in one process: one for each queue."""

import asyncio
import signal
from collections.abc import Sequence

from dragoman.sdk.worker import Worker


async def serve_all(workers: Sequence[Worker]) -> None:
    """Serve until SIGTERM or SIGINT; running jobs finish first."""
    if len(workers) == 1:
        await workers[0].serve_until_signal()
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, drain_all, workers)
    await asyncio.gather(*(worker.serve() for worker in workers))


def drain_all(workers: Sequence[Worker]) -> None:
    """Have all workers finish their jobs and stop."""
    for worker in workers:
        worker.go_down()
