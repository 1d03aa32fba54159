# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator"
"""Workers and clients of other task systems, for `bench_peers`. Runs in the peers' own environment.

`python peer_systems.py SYSTEM worker ADDRESS`, or `... client ADDRESS IN_FLIGHT SECONDS`. The task
is `add(x, y)`; a worker has 8 threads, or runs coroutines where the system does. A client keeps
IN_FLIGHT calls open, waits for each result, and prints one JSON line. This file imports nothing of
Dragoman.
"""

import asyncio
import json
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

THREADS = 8
STARTS_WITHIN = 30.0
# The command lines of some systems import this file again; then the arguments come from here.
SYSTEM = os.environ.get("PEER_SYSTEM") or (sys.argv[1] if len(sys.argv) > 3 else "")
ADDRESS = os.environ.get("PEER_ADDRESS") or (sys.argv[3] if len(sys.argv) > 3 else "")

Call = Callable[[int], Awaitable[Any]]
#: Starts a call; the function it returns waits for the result.
Start = Callable[[int], Callable[[], Any]]


def add(x: int, y: int) -> int:
    return x + y


# --- clients ----------------------------------------------------------------------------------


async def asynchronous(call: Call, in_flight: int, seconds: float) -> dict[str, float]:
    """Keep calls open with one coroutine each."""

    async def until(end: float) -> int:
        async def one() -> int:
            done = 0
            while time.monotonic() < end:
                assert await call(done) == done + 1
                done += 1
            return done

        return sum(await asyncio.gather(*[one() for _ in range(in_flight)]))

    tries_end = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            await call(0)
            break
        except Exception:
            # The worker is not there yet.
            if time.monotonic() > tries_end:
                raise
            await asyncio.sleep(0.2)
    await until(time.monotonic() + seconds / 5)
    ready()
    begun, cpu = time.monotonic(), time.process_time()
    return figures(await until(begun + seconds), begun, cpu)


def blocking(start: Start, in_flight: int, seconds: float) -> dict[str, float]:
    """Keep calls open in a window: when it is full, wait for the oldest."""

    def until(end: float) -> int:
        done, waiting = 0, deque[tuple[int, Callable[[], Any]]]()
        while time.monotonic() < end or waiting:
            while time.monotonic() < end and len(waiting) < in_flight:
                waiting.append((len(waiting), start(len(waiting))))
            number, wait = waiting.popleft()
            assert wait() == number + 1
            done += 1
        return done

    tries_end = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            start(0)()
            break
        except Exception:
            # The worker is not there yet.
            if time.monotonic() > tries_end:
                raise
    until(time.monotonic() + seconds / 5)
    ready()
    begun, cpu = time.monotonic(), time.process_time()
    return figures(until(begun + seconds), begun, cpu)


def ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def figures(jobs: int, begun: float, cpu: float) -> dict[str, float]:
    spent, cpu = time.monotonic() - begun, time.process_time() - cpu
    return {"jobs": jobs, "seconds": spent, "cpu": cpu, "p50": 0.0}


# --- NATS -------------------------------------------------------------------------------------


async def nats_worker() -> None:
    import nats

    connection = await nats.connect(ADDRESS)

    async def answer(message: Any) -> None:
        given = json.loads(message.data)
        await message.respond(json.dumps(add(**given)).encode())

    await connection.subscribe("bench", queue="workers", cb=answer)
    await asyncio.Event().wait()


async def nats_client(in_flight: int, seconds: float) -> dict[str, float]:
    import nats

    connection = await nats.connect(ADDRESS)

    async def call(x: int) -> Any:
        message = json.dumps({"x": x, "y": 1}).encode()
        return json.loads((await connection.request("bench", message, timeout=30)).data)

    return await asynchronous(call, in_flight, seconds)


async def jetstream_worker() -> None:
    """Pull jobs from a work queue; answer to the inbox in the header; acknowledge."""
    import nats

    connection = await nats.connect(ADDRESS)
    stream = connection.jetstream()
    await stream.add_stream(name="BENCH", subjects=["bench"], retention="workqueue")
    jobs = await stream.pull_subscribe("bench", durable="workers")
    while True:
        try:
            batch = await jobs.fetch(64, timeout=5)
        except TimeoutError:
            continue
        for message in batch:
            result = json.dumps(add(**json.loads(message.data))).encode()
            await connection.publish((message.headers or {})["Inbox"], result)
            await message.ack()


async def jetstream_client(in_flight: int, seconds: float) -> dict[str, float]:
    """Publish a job, wait until the stream has it on disk, then for its result."""
    import nats

    connection = await nats.connect(ADDRESS)
    stream = connection.jetstream()
    inbox, waiting = connection.new_inbox(), dict[str, asyncio.Future[bytes]]()

    async def arrived(message: Any) -> None:
        waiting.pop(message.subject).set_result(message.data)

    await connection.subscribe(f"{inbox}.*", cb=arrived)
    numbers = iter(range(10**9))

    async def call(x: int) -> Any:
        subject = f"{inbox}.{next(numbers)}"
        result = waiting[subject] = asyncio.get_running_loop().create_future()
        message = json.dumps({"x": x, "y": 1}).encode()
        await stream.publish("bench", message, headers={"Inbox": subject}, timeout=30)
        return json.loads(await result)

    return await asynchronous(call, in_flight, seconds)


# --- on Redis ---------------------------------------------------------------------------------

if SYSTEM == "dramatiq":
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.results import Results
    from dramatiq.results.backends import RedisBackend

    _broker = RedisBroker(url=ADDRESS)
    _broker.add_middleware(Results(backend=RedisBackend(url=ADDRESS)))
    dramatiq.set_broker(_broker)
    dramatiq_add = dramatiq.actor(add, store_results=True)

if SYSTEM == "celery":
    from celery import Celery

    app = Celery("peer_systems", broker=ADDRESS, backend=ADDRESS)
    celery_add = app.task(add)

if SYSTEM == "huey":
    from huey import RedisHuey

    huey = RedisHuey("bench", url=ADDRESS)
    huey_add = huey.task()(add)

if SYSTEM == "taskiq":
    from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend

    taskiq_broker = ListQueueBroker(ADDRESS).with_result_backend(RedisAsyncResultBackend(ADDRESS))
    taskiq_add = taskiq_broker.task(add)


async def arq_add(context: Any, x: int, y: int) -> int:
    return add(x, y)


def dramatiq_client(in_flight: int, seconds: float) -> dict[str, float]:
    def start(x: int) -> Callable[[], Any]:
        sent = dramatiq_add.send(x, 1)
        return lambda: sent.get_result(block=True, timeout=30_000)

    return blocking(start, in_flight, seconds)


def celery_client(in_flight: int, seconds: float) -> dict[str, float]:
    return blocking(lambda x: celery_add.delay(x, 1).get, in_flight, seconds)


def huey_client(in_flight: int, seconds: float) -> dict[str, float]:
    def start(x: int) -> Callable[[], Any]:
        sent = huey_add(x, 1)
        return lambda: sent.get(blocking=True, timeout=30, backoff=1.0, max_delay=0.001)

    return blocking(start, in_flight, seconds)


def rq_client(in_flight: int, seconds: float) -> dict[str, float]:
    from redis import Redis
    from rq import Queue

    jobs = Queue("bench", connection=Redis.from_url(ADDRESS))

    def start(x: int) -> Callable[[], Any]:
        job = jobs.enqueue("peer_systems.add", x, 1)

        def wait() -> Any:
            while (found := job.latest_result()) is None:
                time.sleep(0.001)
            return found.return_value

        return wait

    return blocking(start, in_flight, seconds)


async def arq_client(in_flight: int, seconds: float) -> dict[str, float]:
    from arq import create_pool
    from arq.connections import RedisSettings

    pool = await create_pool(RedisSettings.from_dsn(ADDRESS))

    async def call(x: int) -> Any:
        job = await pool.enqueue_job("arq_add", x, 1)
        assert job is not None
        return await job.result(timeout=30, poll_delay=0.01)

    return await asynchronous(call, in_flight, seconds)


async def taskiq_client(in_flight: int, seconds: float) -> dict[str, float]:
    await taskiq_broker.startup()

    async def call(x: int) -> Any:
        task = await taskiq_add.kiq(x, 1)
        found = await task.wait_result(check_interval=0.01, timeout=30)
        return found.return_value

    return await asynchronous(call, in_flight, seconds)


CLIENTS: dict[str, Callable[[int, float], Any]] = {
    "nats": nats_client,
    "jetstream": jetstream_client,
    "dramatiq": dramatiq_client,
    "celery": celery_client,
    "rq": rq_client,
    "arq": arq_client,
    "huey": huey_client,
    "taskiq": taskiq_client,
}


# --- workers ----------------------------------------------------------------------------------


def celery_worker() -> None:
    options = ["--pool", "threads", "--concurrency", str(THREADS), "--loglevel", "error"]
    app.worker_main(["worker", *options])


def rq_worker() -> None:
    """Run jobs in this process: a process for each job, the default, is slower still."""
    from redis import Redis
    from rq import Queue, SimpleWorker

    connection = Redis.from_url(ADDRESS)
    SimpleWorker([Queue("bench", connection=connection)], connection=connection).work(
        logging_level="ERROR"
    )


def arq_worker() -> None:
    from arq.connections import RedisSettings
    from arq.worker import Worker

    settings = RedisSettings.from_dsn(ADDRESS)
    Worker([arq_add], redis_settings=settings, max_jobs=100, poll_delay=0.01).run()


def _exec(*command: str) -> None:
    """Become a program of the same environment, which imports this file by its name."""
    folder = os.path.dirname(os.path.abspath(__file__))
    os.environ |= {"PEER_SYSTEM": SYSTEM, "PEER_ADDRESS": ADDRESS, "PYTHONPATH": folder}
    os.chdir(folder)
    os.execv(sys.executable, [sys.executable, *command])


WORKERS: dict[str, Callable[[], Any]] = {
    "nats": nats_worker,
    "jetstream": jetstream_worker,
    "dramatiq": lambda: _exec("-m", "dramatiq", "-p", "1", "-t", str(THREADS), "peer_systems"),
    "celery": celery_worker,
    "rq": rq_worker,
    "arq": arq_worker,
    "huey": lambda: _exec(
        "-m", "huey.bin.huey_consumer", "peer_systems.huey", "-w", str(THREADS), "-d", "0.001"
    ),
    "taskiq": lambda: _exec(
        "-m", "taskiq", "worker", "peer_systems:taskiq_broker", "-w", "1", "--log-level", "ERROR"
    ),
}


def main() -> None:
    if sys.argv[2] == "worker":
        running = WORKERS[SYSTEM]()
    else:
        running = CLIENTS[SYSTEM](int(sys.argv[4]), float(sys.argv[5]))
    found = asyncio.run(running) if asyncio.iscoroutine(running) else running
    if found is not None:
        print(json.dumps(found))


if __name__ == "__main__":
    # Some systems name a task by its module, and workers import this file by its name.
    from peer_systems import main as main_by_name

    main_by_name()
