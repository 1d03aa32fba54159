"""What Dramatiq's guide types, with one import changed, on a real broker."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent
from threading import Event
from typing import Any

import pytest

import dragoman.compat.dramatiq as dramatiq
from dragoman.compat.dramatiq.brokers.rabbitmq import RabbitmqBroker
from dragoman.compat.dramatiq.brokers.redis import RedisBroker
from dragoman.compat.dramatiq.middleware import AgeLimit, TimeLimit
from dragoman.compat.dramatiq.results import Results, ResultTimeout
from dragoman.compat.dramatiq.results.backends import RedisBackend
from dragoman.testing.harness import LocalBroker

counted: list[str] = []
seen: list[Any] = []
done = Event()


class Noted(dramatiq.Middleware):
    def before_enqueue(self, broker: Any, message: Any, delay: Any) -> None:
        seen.append(("sends", message.actor_name))

    def after_process_message(
        self, broker: Any, message: Any, *, result: Any = None, exception: Any = None
    ) -> None:
        seen.append((message.actor_name, result, type(exception).__name__))


@pytest.fixture(scope="module")
def actors(broker: LocalBroker) -> Iterator[dict[str, Any]]:
    rabbit = RabbitmqBroker(url=broker.url("nfp"), middleware=[AgeLimit(), TimeLimit(), Noted()])
    rabbit.add_middleware(Results(backend=RedisBackend()))
    dramatiq.set_broker(rabbit)

    @dramatiq.actor
    def count_words(url: str) -> None:
        counted.append(url)
        done.set()

    @dramatiq.actor(max_retries=3, min_backoff=10, store_results=True, queue_name="numbers")
    def add(x: int, y: int) -> int:
        return x + y

    @dramatiq.actor(throws=(ValueError,), max_retries=5)
    def strict(x: int) -> int:
        raise ValueError(f"{x} is too small")

    runs: list[int] = []

    @dramatiq.actor(max_retries=5)
    def shaky() -> int:
        runs.append(1)
        if len(runs) < 3:
            raise dramatiq.Retry("busy", delay=20)
        return len(runs)

    with ExitStack() as stack:
        for worker in rabbit.make_workers(own_process_beats=False):
            stack.enter_context(worker)
        yield rabbit.actors
    rabbit.close()


def test_an_actor_is_a_function_and_can_be_sent(actors: Any) -> None:
    actors["count_words"]("here")
    done.clear()
    message = actors["count_words"].send("http://example.com")
    assert done.wait(20)
    assert counted == ["here", "http://example.com"]
    assert message.queue_name == "default"
    assert ("sends", "count_words") in seen
    message.get_result(block=True)
    assert ("count_words", None, "NoneType") in seen


def test_options_of_a_message(actors: Any) -> None:
    sent = actors["add"].send_with_options(args=(1,), kwargs={"y": 2}, delay=50, max_retries=1)
    assert sent.get_result(block=True, timeout=20_000) == 3


def test_errors_of_actors(actors: Any) -> None:
    with pytest.raises(dramatiq.DramatiqError, match="3 is too small"):
        actors["strict"].send(3).get_result(block=True, timeout=20_000)
    assert ("strict", None, "Permanent") in seen
    assert actors["shaky"].send().get_result(block=True, timeout=20_000) == 3


def test_groups_and_pipelines(actors: Any) -> None:
    add = actors["add"]
    g = dramatiq.group([add.message(1, 2), add.message(3, 4)]).run()
    assert list(g.get_results(block=True, timeout=20_000)) == [3, 7]
    g.wait(timeout=20_000)
    assert g.completed
    assert (g.completed_count, len(g)) == (2, 2)
    pipe = add.message(1, 2) | add.message(3) | add.message(4)
    assert len(pipe) == 3
    assert pipe.run().get_result(block=True, timeout=20_000) == 10
    assert dramatiq.pipeline([add.message(1, 1), add.message(2)]).run(delay=10).get_result(
        block=True, timeout=20_000
    ) == 4  # fmt: skip
    with pytest.raises(ResultTimeout):
        add.send_with_options(args=(1, 1), delay=60_000).get_result(block=True, timeout=50)


@pytest.mark.process
def test_the_guide_runs_as_two_programs(tmp_path: Path) -> None:
    with LocalBroker("http") as broker:
        two_programs(broker.url("http"), tmp_path)


def two_programs(url: str, tmp_path: Path) -> None:
    (tmp_path / "count_words.py").write_text(
        dedent("""
        import sys
        import dragoman.compat.dramatiq as dramatiq

        @dramatiq.actor
        def count_words(text):
            print(f"There are {len(text.split())} words", flush=True)

        if __name__ == "__main__":
            count_words.send(sys.argv[1]).get_result(block=True, timeout=40_000)
        """)
    )
    given: dict[str, Any] = {
        "cwd": tmp_path,
        "env": {**os.environ, "DRAGOMAN_URL": url},
    }
    command = [sys.executable, "-m", "dragoman.compat.dramatiq", "count_words"]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **given)
    try:
        sender = [sys.executable, "count_words.py", "one two three"]
        assert subprocess.run(sender, timeout=50, check=False, **given).returncode == 0
    finally:
        worker.terminate()
        output, _ = worker.communicate(timeout=30)
    assert "There are 3 words" in output
    assert worker.returncode == 0


def test_names_of_brokers_are_one() -> None:
    assert RedisBroker is RabbitmqBroker
