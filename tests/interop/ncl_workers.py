"""Our workers as compute nodes in processes of their own, and a NATS server that can go away."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.interop.harness import Fleet, Process, free_port

from dragoman.transports.nats_server import NatsServer

QUICK = (
    "?heartbeat_interval=0.3&request_timeout=1&reconnect_interval=0.2&reconnect_max=0.5"
    "&ack_wait=0.5&retry_base=0.2&retry_max=0.5&checkpoint_interval=0.2&tick=0.05"
    "&info_update_interval=0.5"
)


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 50))


def start_worker(
    fleet: Fleet, nats: str, name: str = "w-1", more: str = "", env: dict[str, str] | None = None
) -> Process:
    url = "ncl://" + nats.partition("://")[2] + QUICK + more
    arguments = ("tests.interop.tasks", "--service", "probe", "--name", name, "--url", url)
    return fleet.dragoman("worker", *arguments, env=env or {})


class Nats:
    """A nats-server in the hands of a test."""

    def __init__(self, folder: Path) -> None:
        self.server = NatsServer(folder, port=free_port())
        self._loop = asyncio.new_event_loop()

    def start(self) -> None:
        self._loop.run_until_complete(self.server.start())

    def stop(self) -> None:
        self._loop.run_until_complete(self.server.stop())

    def close(self) -> None:
        self.stop()
        self._loop.close()


@contextmanager
def own_nats(folder: Path) -> Iterator[Nats]:
    nats = Nats(folder)
    nats.start()
    try:
        yield nats
    finally:
        nats.close()
