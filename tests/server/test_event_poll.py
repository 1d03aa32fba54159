"""Polls for events: from a position, by topic, limited, and waiting."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.dialects.local.body_codec import LocalBodyCodec
from dragoman.ledger.base import Entry
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.content import Answer
from dragoman.model.record import Kind, Record
from dragoman.server.event_poll import MOST_FOUND, MOST_WAITING, EventPoll
from dragoman.services.base import ServiceFault, ServiceSession

CODEC = LocalBodyCodec()
SESSION = ServiceSession("j", "dcp/c", lambda kind, said: None)


class PollSetup:
    """A growing ledger, and a client that polls."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.is_going_down = False
        self.poll = EventPoll(self.ledger, {CODEC.name: CODEC}, lambda: self.is_going_down)

    async def events(self, **asked: Any) -> dict[str, Any]:
        """Poll as a client: return the answer that the server would send."""
        recorded = await self.poll.events(SESSION, **asked)
        return self.poll.take_found(SESSION.job) or recorded

    async def note(self, kind: Kind, detail: str = "", event: Any = None, **more: Any) -> None:
        body = CODEC.write_answer(Answer(event)) if kind is Kind.PUBLISHED else None
        seq = self.ledger.last_seq + 1
        size = body.size if body else 0
        entry = Entry(Record(seq, float(seq), kind, detail=detail, nbytes=size, **more), body)
        await self.ledger.append([entry])
        self.poll.durable([entry])


def run(story: Callable[[PollSetup], Awaitable[None]]) -> None:
    async def run_story() -> None:
        await story(PollSetup())

    asyncio.run(run_story())


def seqs(said: dict[str, Any]) -> list[int]:
    return [event["seq"] for event in said["events"]]


def test_events_start_at_a_position_and_the_answer_has_the_next_position() -> None:
    async def story(poll: PollSetup) -> None:
        for _ in range(5):
            await poll.note(Kind.ENDED, job="j1")
        said = await poll.events(after=1, limit=2)
        assert (seqs(said), said["after"]) == ([2, 3], 3)
        assert said["events"][0]["topic"] == "broker.ended"
        assert said["events"][0]["event"]["job"] == "j1"
        said = await poll.events(after=3)
        assert (seqs(said), said["after"]) == ([4, 5], 5)
        assert await poll.events(after=5) == {"after": 5, "events": []}
        assert await poll.events() == {"after": 5, "events": []}

    run(story)


def test_topics_filter_and_published_events_keep_their_content() -> None:
    async def story(poll: PollSetup) -> None:
        await poll.note(Kind.JOINED)
        await poll.note(Kind.PUBLISHED, "news.weather", {"rain": True})
        await poll.note(Kind.PUBLISHED, "gossip", "x")
        said = await poll.events(after=0, topics=["news.*"])
        assert said == {
            "after": 3,
            "events": [{"seq": 2, "at": 2.0, "topic": "news.weather", "event": {"rain": True}}],
        }
        assert seqs(await poll.events(after=0, topics="broker.*")) == [1]

    run(story)


def test_a_waiting_poll_is_answered_by_events_of_its_topic_only() -> None:
    async def story(poll: PollSetup) -> None:
        asked = asyncio.create_task(poll.events(after=0, topics="news", wait=20.0))
        await asyncio.sleep(0)
        await poll.note(Kind.JOINED)
        await asyncio.sleep(0.01)
        assert not asked.done()
        await poll.note(Kind.PUBLISHED, "news", 1)
        assert seqs(await asked) == [2]

    run(story)


def test_the_records_of_polls_are_not_events() -> None:
    async def story(poll: PollSetup) -> None:
        asked = {"service": "MMI.SERVICE.BROKER", "task": "events"}
        await poll.note(Kind.SUBMITTED, **asked)
        await poll.note(Kind.ENDED, service="mmi.service.broker", task="show_jobs")
        assert seqs(await poll.events(after=0)) == [2]

    run(story)


def test_a_shutdown_answers_waiting_polls() -> None:
    async def story(poll: PollSetup) -> None:
        poll.is_going_down = True
        assert await poll.events(after=0, wait=30.0) == {"after": 0, "events": []}

    run(story)


def test_the_number_of_waiting_polls_is_bounded() -> None:
    async def story(poll: PollSetup) -> None:
        waiting = [asyncio.create_task(poll.events(wait=20.0)) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0.01)
        assert await poll.events(wait=20.0) == {"after": 0, "events": []}
        await poll.note(Kind.JOINED)
        assert [seqs(said) for said in await asyncio.gather(*waiting)] == [[1]] * MOST_WAITING

    run(story)


def test_the_recorded_answer_has_the_position_and_no_events() -> None:
    async def story(poll: PollSetup) -> None:
        for event in range(3):
            await poll.note(Kind.PUBLISHED, "news", event)
        assert await poll.poll.events(SESSION, after=1) == {"after": 1, "events": []}
        told = poll.poll.take_found(SESSION.job)
        assert told is not None
        assert (seqs(told), told["after"]) == ([2, 3], 3)
        # A poll from the recorded position finds the same events.
        assert poll.poll.take_found(SESSION.job) is None
        assert await poll.events(after=1) == told
        # Where there was nothing, the record says how far it looked.
        assert await poll.poll.events(SESSION, after=1, topics="x") == {"after": 3, "events": []}

    run(story)


def test_new_events_are_gathered_into_one_answer() -> None:
    async def story(poll: PollSetup) -> None:
        asked = asyncio.create_task(poll.events(after=0, wait=20.0))
        await asyncio.sleep(0)
        for _ in range(5):
            await poll.note(Kind.JOINED)
            await asyncio.sleep(0)
        assert seqs(await asked) == [1, 2, 3, 4, 5]

    run(story)


def test_answers_that_are_never_sent_are_dropped() -> None:
    async def story(poll: PollSetup) -> None:
        await poll.note(Kind.JOINED)
        for n in range(MOST_FOUND + 1):
            await poll.poll.events(
                ServiceSession(f"j{n}", "dcp/c", lambda kind, said: None), after=0
            )
        assert poll.poll.take_found("j0") is None
        assert poll.poll.take_found("j1") is not None

    run(story)


@pytest.mark.parametrize("bad", [{"topics": 7}, {"topics": [1]}, {"after": "x"}, {"wait": []}])
def test_an_invalid_poll_is_refused_with_the_reason(bad: dict[str, Any]) -> None:
    async def story(poll: PollSetup) -> None:
        with pytest.raises(ServiceFault):
            await poll.events(**bad)

    run(story)
