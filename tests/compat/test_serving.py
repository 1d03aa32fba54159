import asyncio
import os
import signal

import pytest

from dragoman import Client, Worker
from dragoman.compat.serving import serve_all
from dragoman.testing.harness import LocalBroker


@pytest.mark.parametrize("count", [1, 2])
def test_one_signal_ends_all_workers(broker: LocalBroker, count: int) -> None:
    workers = [
        Worker(broker.url("nfp"), f"serving{n}", own_process_beats=False) for n in range(count)
    ]
    for worker in workers:
        worker.task(name="where")(lambda: "here")

    def call_and_stop() -> list[str]:
        with Client(broker.url("nfp")) as client:
            calls = client.options(timeout=30)
            found = [calls.call(f"serving{n}", "where") for n in range(count)]
        os.kill(os.getpid(), signal.SIGTERM)
        return found

    async def run() -> list[str]:
        calls = asyncio.create_task(asyncio.to_thread(call_and_stop))
        await serve_all(workers)
        return await calls

    assert asyncio.run(run()) == ["here"] * count
