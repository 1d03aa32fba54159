"""One client process of the SDK benches: calls with a fixed number in flight, then one JSON line.

`python -m benches.sdk_client URL SERVICE IN_FLIGHT SECONDS`. A warm-up of a fifth of the time comes
first; `ready` on standard output ends it, so that the caller can read the other processes' clocks.
"""

import asyncio
import json
import sys
import time
from statistics import median
from typing import Any

from dragoman import AsyncClient


async def calls_until(client: AsyncClient, service: str, in_flight: int, until: float) -> int:
    """Keep `in_flight` calls open until a monotonic time; return how many ended."""

    async def one() -> int:
        done = 0
        while time.monotonic() < until:
            assert await client.call(service, "add", x=done, y=1) == done + 1
            done += 1
        return done

    return sum(await asyncio.gather(*[one() for _ in range(in_flight)]))


async def latencies(client: AsyncClient, service: str, until: float) -> list[float]:
    """Make one call at a time until a monotonic time."""
    took = []
    while time.monotonic() < until:
        begun = time.perf_counter()
        await client.call(service, "add", x=1, y=1)
        took.append(time.perf_counter() - begun)
    return took


async def measure(url: str, service: str, in_flight: int, seconds: float) -> dict[str, Any]:
    """Warm up, then measure."""
    async with AsyncClient(url) as client:
        await calls_until(client, service, in_flight, time.monotonic() + seconds / 5)
        print("ready", flush=True)
        sys.stdin.readline()
        begun, cpu = time.monotonic(), time.process_time()
        took: list[float] = []
        if in_flight == 1:
            took = await latencies(client, service, begun + seconds)
            done = len(took)
        else:
            done = await calls_until(client, service, in_flight, begun + seconds)
        spent, cpu = time.monotonic() - begun, time.process_time() - cpu
        p50 = median(took) * 1e6 if took else 0.0
        return {"jobs": done, "seconds": spent, "cpu": cpu, "p50": p50}


def main() -> None:
    url, service, in_flight, seconds = sys.argv[1:]
    print(json.dumps(asyncio.run(measure(url, service, int(in_flight), float(seconds)))))


if __name__ == "__main__":
    main()
