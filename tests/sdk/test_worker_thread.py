"""The background thread of a worker."""

import asyncio
import threading

import pytest

from dragoman.sdk.errors import Refused, Unreachable
from dragoman.sdk.worker_thread import WorkerThread


class Scene:
    """A worker that serves until `drain` was called `drains` times."""

    def __init__(self, drains: int = 1) -> None:
        self.refusal = ""
        self.left = drains
        self.loop: asyncio.AbstractEventLoop | None = None
        self.serves = threading.Event()
        self.thread = WorkerThread(
            "w", self.serve, lambda: self.refusal, lambda timeout: f"not within {timeout:g}"
        )

    async def serve(self) -> None:
        self.loop, self.stopped = asyncio.get_running_loop(), asyncio.Event()
        self.serves.set()
        await self.stopped.wait()

    def drain(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.stopped.set()

    def start(self) -> None:
        self.thread.start()
        assert self.serves.wait(15)


def test_it_is_ready_when_the_broker_has_registered_the_worker() -> None:
    scene = Scene()
    scene.start()
    with pytest.raises(Unreachable, match="not within 0"):
        scene.thread.wait_ready(0)
    scene.thread.note_registered(True)
    scene.thread.wait_ready(0)
    scene.thread.note_registered(False)
    assert not scene.thread.is_ready.is_set()
    scene.thread.stop(scene.loop, scene.drain, 15)
    assert not scene.thread.is_alive
    with pytest.raises(Unreachable):
        scene.thread.wait_ready(15)


def test_a_refusal_is_told_before_the_timeout() -> None:
    scene = Scene()
    scene.refusal = "unknown key"
    with pytest.raises(Refused, match="unknown key"):
        scene.thread.wait_ready(0.01)


def test_a_worker_that_does_not_end_is_told_twice() -> None:
    scene = Scene(drains=2)
    scene.start()
    scene.thread.stop(scene.loop, scene.drain, 0.0)
    assert (scene.left, scene.thread.is_alive) == (0, False)


def test_a_thread_that_never_started_needs_no_stop() -> None:
    scene = Scene()
    scene.thread.stop(None, scene.drain, 1)
    assert scene.left == 1
