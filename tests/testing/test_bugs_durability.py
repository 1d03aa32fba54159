"""Planted bugs of durability, one by one: the smallest story in which each breaks its promise.

These are told to a simulated server, for its disk is what they are about.
"""

from collections.abc import Callable

import pytest
from tests.core.builders import body, joined, peer, submitted
from tests.testing.house import House
from tests.testing.promises import around

from dragoman.core.effects import SendWork
from dragoman.core.events import ReplyKind, ReplyReceived
from dragoman.model.body import Body
from dragoman.model.names import JobId
from dragoman.testing.bugs.durability import BUGS

#: As the oracle wants results: the question, the attempt and the worker are in it.
ANSWER = ReplyReceived(
    peer("w1"), JobId("j1"), ReplyKind.FINAL, Body("local", (b"question", b"1", b"w1"))
)


def restarted(house: House) -> House:
    house.run(3.0)
    house.server.crash()
    house.server.start()
    house.run(3.0)
    return house


def nothing_strict_leaves_before_it_is_on_the_disk(house: House) -> bool:
    house.say(submitted("j1"))
    return house.run(0.5) == []


def nothing_strict_leaves_when_it_cannot_be_written(house: House) -> bool:
    house.disk.is_full = True
    house.say(submitted("j1"))
    return house.run(5.0) == []


def what_has_ended_has_ended_after_a_crash_too(house: House) -> bool:
    house.say(joined("w1"), submitted("j1"), ANSWER)
    (job,) = restarted(house).server.broker.state.store.jobs.values()
    return job.is_final


def what_waited_is_asked_in_the_same_words_after_a_crash(house: House) -> bool:
    house.say(submitted("j1"))
    restarted(house).say(joined("w1"))
    house.run(3.0)
    return [e.body for e in house.heard if isinstance(e, SendWork)] == [body()]


STORIES: dict[str, Callable[[House], bool]] = {
    "ack_before_sync": nothing_strict_leaves_before_it_is_on_the_disk,
    "send_after_failed_append": nothing_strict_leaves_when_it_cannot_be_written,
    "result_forgotten_after_recovery": what_has_ended_has_ended_after_a_crash_too,
    "request_lost_in_recovery": what_waited_is_asked_in_the_same_words_after_a_crash,
}


def test_every_bug_has_its_story() -> None:
    assert set(STORIES) == set(BUGS)


@pytest.mark.parametrize("name", list(BUGS))
def test_a_promise_is_broken_while_its_bug_is_in_and_only_then(name: str) -> None:
    assert around(BUGS[name], STORIES[name], House) == [True, False, True]
