"""Events for whoever asks for them: from a position, by topic, so many, waiting for news."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.dialects.local.body_codec import LocalBodyCodec
from dragoman.ledger.base import Entry
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.content import Answer
from dragoman.model.record import Kind, Record
from dragoman.server.event_poll import MOST_UNTOLD, MOST_WAITING, EventPoll
from dragoman.services.base import ServiceFault, ServiceSession

CODEC = LocalBodyCodec()
SESSION = ServiceSession("j", "dcp/c", lambda kind, said: None)


class Desk:
    """A ledger that grows, and somebody who asks."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.is_going_down = False
        self.pull = EventPoll(self.ledger, {CODEC.name: CODEC}, lambda: self.is_going_down)

    async def events(self, **asked: Any) -> dict[str, Any]:
        """Ask as a client does: what it is told is the recorded answer unless that is completed."""
        recorded = await self.pull.events(SESSION, **asked)
        return self.pull.told(SESSION.job) or recorded

    async def note(self, kind: Kind, detail: str = "", event: Any = None, **more: Any) -> None:
        body = CODEC.write_answer(Answer(event)) if kind is Kind.PUBLISHED else None
        seq = self.ledger.last_seq + 1
        size = body.size if body else 0
        entry = Entry(Record(seq, float(seq), kind, detail=detail, nbytes=size, **more), body)
        await self.ledger.append([entry])
        self.pull.durable([entry])


def run(story: Callable[[Desk], Awaitable[None]]) -> None:
    async def told() -> None:
        await story(Desk())

    asyncio.run(told())


def seqs(said: dict[str, Any]) -> list[int]:
    return [event["seq"] for event in said["events"]]


def test_events_come_from_a_position_on_and_the_answer_says_where_to_go_on() -> None:
    async def story(desk: Desk) -> None:
        for _ in range(5):
            await desk.note(Kind.ENDED, job="j1")
        said = await desk.events(after=1, limit=2)
        assert (seqs(said), said["after"]) == ([2, 3], 3)
        assert said["events"][0]["topic"] == "broker.ended"
        assert said["events"][0]["event"]["job"] == "j1"
        said = await desk.events(after=3)
        assert (seqs(said), said["after"]) == ([4, 5], 5)
        assert await desk.events(after=5) == {"after": 5, "events": []}
        assert await desk.events() == {"after": 5, "events": []}

    run(story)


def test_topics_filter_and_published_events_are_told_as_they_were_said() -> None:
    async def story(desk: Desk) -> None:
        await desk.note(Kind.JOINED)
        await desk.note(Kind.PUBLISHED, "news.weather", {"rain": True})
        await desk.note(Kind.PUBLISHED, "gossip", "x")
        said = await desk.events(after=0, topics=["news.*"])
        assert said == {
            "after": 3,
            "events": [{"seq": 2, "at": 2.0, "topic": "news.weather", "event": {"rain": True}}],
        }
        assert seqs(await desk.events(after=0, topics="broker.*")) == [1]

    run(story)


def test_who_waits_is_woken_by_news_of_the_topic_and_by_no_other() -> None:
    async def story(desk: Desk) -> None:
        asked = asyncio.create_task(desk.events(after=0, topics="news", wait=20.0))
        await asyncio.sleep(0)
        await desk.note(Kind.JOINED)
        await asyncio.sleep(0.01)
        assert not asked.done()
        await desk.note(Kind.PUBLISHED, "news", 1)
        assert seqs(await asked) == [2]

    run(story)


def test_the_records_of_questions_for_events_are_no_events() -> None:
    async def story(desk: Desk) -> None:
        asked = {"service": "MMI.SERVICE.BROKER", "task": "events"}
        await desk.note(Kind.SUBMITTED, **asked)
        await desk.note(Kind.ENDED, service="mmi.service.broker", task="show_jobs")
        assert seqs(await desk.events(after=0)) == [2]

    run(story)


def test_a_broker_that_goes_down_keeps_nobody_waiting() -> None:
    async def story(desk: Desk) -> None:
        desk.is_going_down = True
        assert await desk.events(after=0, wait=30.0) == {"after": 0, "events": []}

    run(story)


def test_only_so_many_wait_at_a_time() -> None:
    async def story(desk: Desk) -> None:
        waiting = [asyncio.create_task(desk.events(wait=20.0)) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0.01)
        assert await desk.events(wait=20.0) == {"after": 0, "events": []}
        await desk.note(Kind.JOINED)
        assert [seqs(said) for said in await asyncio.gather(*waiting)] == [[1]] * MOST_WAITING

    run(story)


def test_what_goes_on_record_says_where_the_events_begin_and_has_none_of_them() -> None:
    async def story(desk: Desk) -> None:
        for event in range(3):
            await desk.note(Kind.PUBLISHED, "news", event)
        assert await desk.pull.events(SESSION, after=1) == {"after": 1, "events": []}
        told = desk.pull.told(SESSION.job)
        assert told is not None
        assert (seqs(told), told["after"]) == ([2, 3], 3)
        # Whoever is given the recorded answer finds the same by asking from there.
        assert desk.pull.told(SESSION.job) is None
        assert await desk.events(after=1) == told
        # Where there was nothing, the record says how far it looked.
        assert await desk.pull.events(SESSION, after=1, topics="x") == {"after": 3, "events": []}

    run(story)


def test_news_gathers_for_who_waits_and_is_told_in_one_answer() -> None:
    async def story(desk: Desk) -> None:
        asked = asyncio.create_task(desk.events(after=0, wait=20.0))
        await asyncio.sleep(0)
        for _ in range(5):
            await desk.note(Kind.JOINED)
            await asyncio.sleep(0)
        assert seqs(await asked) == [1, 2, 3, 4, 5]

    run(story)


def test_answers_that_nobody_fetches_are_let_go() -> None:
    async def story(desk: Desk) -> None:
        await desk.note(Kind.JOINED)
        for n in range(MOST_UNTOLD + 1):
            await desk.pull.events(
                ServiceSession(f"j{n}", "dcp/c", lambda kind, said: None), after=0
            )
        assert desk.pull.told("j0") is None
        assert desk.pull.told("j1") is not None

    run(story)


@pytest.mark.parametrize("bad", [{"topics": 7}, {"topics": [1]}, {"after": "x"}, {"wait": []}])
def test_a_question_that_makes_no_sense_is_refused_in_words(bad: dict[str, Any]) -> None:
    async def story(desk: Desk) -> None:
        with pytest.raises(ServiceFault):
            await desk.events(**bad)

    run(story)
