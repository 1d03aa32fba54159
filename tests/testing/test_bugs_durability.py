"""Planted bugs of durability: for each, the smallest scenario in which it breaks its promise.

They run on a simulated server, because they concern its disk.
"""

from collections.abc import Callable

import pytest
from tests.core.builders import body, joined, peer, submitted
from tests.testing.promises import around
from tests.testing.server_bench import ServerBench

from dragoman.core.effects import SendWork
from dragoman.core.events import ReplyKind, ReplyReceived
from dragoman.model.body import Body
from dragoman.model.names import JobId
from dragoman.testing.bugs.durability import BUGS

#: The oracle expects the request, the attempt and the worker in a result.
ANSWER = ReplyReceived(
    peer("w1"), JobId("j1"), ReplyKind.FINAL, Body("local", (b"question", b"1", b"w1"))
)


def restarted(bench: ServerBench) -> ServerBench:
    bench.run(3.0)
    bench.server.crash()
    bench.server.start()
    bench.run(3.0)
    return bench


def nothing_strict_leaves_before_it_is_on_the_disk(bench: ServerBench) -> bool:
    bench.say(submitted("j1"))
    return bench.run(0.5) == []


def nothing_strict_overtakes_a_batch_that_is_being_written(bench: ServerBench) -> bool:
    bench.say(submitted("j1"))
    bench.run(0.5)
    bench.say(submitted("j1"))
    return bench.run(0.2) == []


def nothing_strict_leaves_when_it_cannot_be_written(bench: ServerBench) -> bool:
    bench.disk.is_full = True
    bench.say(submitted("j1"))
    return bench.run(5.0) == []


def what_has_ended_has_ended_after_a_crash_too(bench: ServerBench) -> bool:
    bench.say(joined("w1"), submitted("j1"), ANSWER)
    (job,) = restarted(bench).server.broker.state.store.jobs.values()
    return job.is_final


def what_ended_after_a_snapshot_has_ended_after_a_crash_too(bench: ServerBench) -> bool:
    bench.say(joined("w1"), submitted("j1"))
    bench.run(3.0)
    bench.server.take_snapshot()
    bench.say(ANSWER)
    jobs = restarted(bench).server.broker.state.store.jobs.values()
    return [job.is_final for job in jobs] == [True]


def what_waited_is_asked_in_the_same_words_after_a_crash(bench: ServerBench) -> bool:
    bench.say(submitted("j1"))
    restarted(bench).say(joined("w1"))
    bench.run(3.0)
    return [e.body for e in bench.heard if isinstance(e, SendWork)] == [body()]


STORIES: dict[str, Callable[[ServerBench], bool]] = {
    "ack_before_sync": nothing_strict_leaves_before_it_is_on_the_disk,
    "ack_while_the_batch_before_is_written": (
        nothing_strict_overtakes_a_batch_that_is_being_written
    ),
    "send_after_failed_append": nothing_strict_leaves_when_it_cannot_be_written,
    "result_forgotten_after_recovery": what_has_ended_has_ended_after_a_crash_too,
    "records_after_a_snapshot_forgotten": (what_ended_after_a_snapshot_has_ended_after_a_crash_too),
    "request_lost_in_recovery": what_waited_is_asked_in_the_same_words_after_a_crash,
}


def test_every_bug_has_its_story() -> None:
    assert set(STORIES) == set(BUGS)


@pytest.mark.parametrize("name", list(BUGS))
def test_a_promise_is_broken_while_its_bug_is_in_and_only_then(name: str) -> None:
    assert around(BUGS[name], STORIES[name], ServerBench) == [True, False, True]
