"""A client polls for events: pages follow each other, and a broker that restarts is asked again."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from dragoman.dialects.peer_sides import Published
from dragoman.model.fault import Fault, FaultCode
from dragoman.sdk import event_polls
from dragoman.sdk.errors import JobFailed, StillRunning, Unreachable
from dragoman.sdk.event_polls import PAGE, PULL_WAIT, poll_events


class Broker:
    """Answers polls from a list of pages and errors."""

    def __init__(self, *answers: Mapping[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[Mapping[str, Any]] = []

    async def ask(self, **query: Any) -> Mapping[str, Any]:
        self.asked.append(query)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def page(after: int, *seqs: int) -> dict[str, Any]:
    events = [{"seq": seq, "topic": f"t.{seq}", "event": {"n": seq}} for seq in seqs]
    return {"after": after, "events": events}


async def first(broker: Broker, number: int, after: int = -1) -> list[Published]:
    found: list[Published] = []
    async for event in poll_events(broker.ask, ("t.*",), after):
        found.append(event)
        if len(found) == number:
            break
    return found


def test_the_next_page_begins_where_the_last_one_ended() -> None:
    broker = Broker(page(4, 2, 4), page(9, 9))
    found = asyncio.run(first(broker, 3))
    assert found == [Published(seq, f"t.{seq}", {"n": seq}) for seq in (2, 4, 9)]
    query = {"topics": ["t.*"], "limit": PAGE, "wait": PULL_WAIT}
    assert broker.asked == [{"after": -1, **query}, {"after": 4, **query}]


@pytest.mark.parametrize(
    "error",
    [
        JobFailed("j", Fault(FaultCode.DRAINING, "restarts")),
        JobFailed("j", Fault(FaultCode.NO_WORKER, "not there yet")),
        JobFailed("j", Fault(FaultCode.JOB_TIMEOUT, "slow")),
        JobFailed("j", Fault(FaultCode.WORKER_LOST, "gone")),
        StillRunning("slow"),
        Unreachable("away"),
    ],
)
def test_a_broker_that_is_away_is_asked_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_polls, "PAUSE", 0.001)
    broker = Broker(error, page(7, 7))
    assert [event.seq for event in asyncio.run(first(broker, 1, after=5))] == [7]
    assert [query["after"] for query in broker.asked] == [5, 5]


def test_a_refusal_ends_the_polls() -> None:
    broker = Broker(JobFailed("j", Fault(FaultCode.DENIED, "not allowed")))
    with pytest.raises(JobFailed, match="not allowed"):
        asyncio.run(first(broker, 1))


def test_a_broker_that_answers_nothing_at_once_is_not_asked_without_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    # The third poll has moved: events that the client may not see lie in between.
    broker = Broker(page(5), page(5), page(6), page(8, 8))
    assert [event.seq for event in asyncio.run(first(broker, 1, after=5))] == [8]
    assert pauses == [event_polls.PAUSE] * 2
