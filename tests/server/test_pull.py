"""Events for whoever asks for them: from a position, by topic, so many, waiting for news."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.dialects.local.dress import Dress
from dragoman.ledger.base import Entry
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.content import Answer
from dragoman.model.record import Kind, Record
from dragoman.server.pull import MOST_WAITING, Pull
from dragoman.services.base import ServiceFault

DRESS = Dress()


class Desk:
    """A ledger that grows, and somebody who asks."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.is_going_down = False
        self.pull = Pull(self.ledger, {DRESS.name: DRESS}, lambda: self.is_going_down)

    async def note(self, kind: Kind, detail: str = "", event: Any = None, **more: Any) -> None:
        body = DRESS.write_answer(Answer(event)) if kind is Kind.PUBLISHED else None
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
        said = await desk.pull.events(after=1, limit=2)
        assert (seqs(said), said["after"]) == ([2, 3], 3)
        assert said["events"][0]["topic"] == "broker.ended"
        assert said["events"][0]["event"]["job"] == "j1"
        said = await desk.pull.events(after=3)
        assert (seqs(said), said["after"]) == ([4, 5], 5)
        assert await desk.pull.events(after=5) == {"after": 5, "events": []}
        assert await desk.pull.events() == {"after": 5, "events": []}

    run(story)


def test_topics_filter_and_published_events_are_told_as_they_were_said() -> None:
    async def story(desk: Desk) -> None:
        await desk.note(Kind.JOINED)
        await desk.note(Kind.PUBLISHED, "news.weather", {"rain": True})
        await desk.note(Kind.PUBLISHED, "gossip", "x")
        said = await desk.pull.events(after=0, topics=["news.*"])
        assert said == {
            "after": 3,
            "events": [{"seq": 2, "at": 2.0, "topic": "news.weather", "event": {"rain": True}}],
        }
        assert seqs(await desk.pull.events(after=0, topics="broker.*")) == [1]

    run(story)


def test_who_waits_is_woken_by_news_of_the_topic_and_by_no_other() -> None:
    async def story(desk: Desk) -> None:
        asked = asyncio.create_task(desk.pull.events(after=0, topics="news", wait=20.0))
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
        assert seqs(await desk.pull.events(after=0)) == [2]

    run(story)


def test_a_broker_that_goes_down_keeps_nobody_waiting() -> None:
    async def story(desk: Desk) -> None:
        desk.is_going_down = True
        assert await desk.pull.events(after=0, wait=30.0) == {"after": 0, "events": []}

    run(story)


def test_only_so_many_wait_at_a_time() -> None:
    async def story(desk: Desk) -> None:
        waiting = [asyncio.create_task(desk.pull.events(wait=20.0)) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0.01)
        assert await desk.pull.events(wait=20.0) == {"after": 0, "events": []}
        await desk.note(Kind.JOINED)
        assert [seqs(said) for said in await asyncio.gather(*waiting)] == [[1]] * MOST_WAITING

    run(story)


@pytest.mark.parametrize("bad", [{"topics": 7}, {"topics": [1]}, {"after": "x"}, {"wait": []}])
def test_a_question_that_makes_no_sense_is_refused_in_words(bad: dict[str, Any]) -> None:
    async def story(desk: Desk) -> None:
        with pytest.raises(ServiceFault):
            await desk.pull.events(**bad)

    run(story)
