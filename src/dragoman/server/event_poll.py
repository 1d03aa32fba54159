"""Events for whoever asks: the form for dialects that cannot carry what nobody asked for.

A question names a position in the ledger and globs of topics; the answer has the next events and
the position to ask from next. One that finds nothing may wait a while for news. The questions
themselves are jobs and so on record; those records are left out, or every answer would be news.

Whoever follows the ledger by asking must not make it grow with what it holds already. So the answer
that is put on record says where the events begin and has none of them: they are put in on its way
out (`told`). Who gets the recorded one, because the first was lost, asks again from there.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from dragoman.dialects.base import BodyCodecs, topic_of
from dragoman.dialects.nfp.bodies import record_object
from dragoman.ledger.base import Entry, Ledger
from dragoman.model.content import Unmappable
from dragoman.model.record import Kind, Record
from dragoman.services.base import ServiceFault, ServiceSession
from dragoman.services.mmi import MANAGEMENT

TASK: Final = "events"
#: The longest wait for news, and how often one that waits looks whether the broker goes down.
LONGEST_WAIT: Final = 30.0
_LOOK: Final = 0.5
#: How long news gathers for somebody who waits: one answer for many, not one for each.
GATHER: Final = 0.1
#: Events in one answer, records looked at in one go, and in one answer.
MOST_EVENTS: Final = 1000
_PIECE: Final = 1000
MOST_RECORDS: Final = 20_000
#: Questions that may wait at a time: the rest of management must not wait for them.
MOST_WAITING: Final = 50
#: Answers on their way out; as many as the management runs jobs at a time.
MOST_UNTOLD: Final = 100


class EventPoll:
    """Answers questions for events."""

    def __init__(
        self, ledger: Ledger, codecs: BodyCodecs, is_going_down: Callable[[], bool]
    ) -> None:
        self._ledger = ledger
        self._codecs = codecs
        self._is_going_down = is_going_down
        self._news = asyncio.Event()
        self._waiting = 0
        #: By job, what it is told in place of the recorded answer.
        self._untold: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def durable(self, entries: Sequence[Entry]) -> None:
        """Wake those who wait for news."""
        if self._waiting:
            self._news.set()

    async def events(
        self,
        session: ServiceSession,
        after: int = -1,
        topics: Any = "*",
        limit: int = 100,
        wait: float = 0.0,
    ) -> dict[str, Any]:
        """Find the next events after a position (-1: from now on), waiting for news if told.

        What is returned goes on record and has none of them; `told` has them.
        """
        globs, most = _globs(topics), int(_between(limit, 1, MOST_EVENTS))
        is_from_now = _between(after, -1, 2**62) < 0
        start = self._ledger.last_seq if is_from_now else int(after)
        found = await self._find(start, globs, most, self._patience(wait))
        if not found["events"]:
            return found
        self._untold[session.job] = found
        if len(self._untold) > MOST_UNTOLD:
            self._untold.popitem(last=False)
        return {"after": start, "events": []}

    def told(self, job: str) -> dict[str, Any] | None:
        """Return, once, the events that a job has found."""
        return self._untold.pop(job, None)

    async def _find(
        self, at: int, globs: tuple[str, ...], most: int, patience: float
    ) -> dict[str, Any]:
        ledger, clock = self._ledger, asyncio.get_running_loop().time
        until = clock() + patience
        while True:
            at, found = await self._scan(at, globs, most)
            is_behind = at < ledger.last_seq
            if found or is_behind or clock() >= until or self._is_going_down():
                return {"after": at, "events": found}
            await self._wait(min(_LOOK, until - clock()))

    def _patience(self, wait: float) -> float:
        return _between(wait, 0.0, LONGEST_WAIT) if self._waiting < MOST_WAITING else 0.0

    async def _wait(self, at_most: float) -> None:
        self._waiting += 1
        self._news.clear()
        try:
            async with asyncio.timeout(at_most):
                await self._news.wait()
                await asyncio.sleep(GATHER)
        except TimeoutError:
            pass
        finally:
            self._waiting -= 1

    async def _scan(
        self, at: int, globs: tuple[str, ...], most: int
    ) -> tuple[int, list[dict[str, Any]]]:
        """Look at the next records; return how far, and the events among them."""
        found: list[dict[str, Any]] = []
        looked = 0
        while looked < MOST_RECORDS and at < self._ledger.last_seq:
            # Who asks for what retention has removed goes on with the oldest that is kept.
            for record in self._ledger.read(max(at, self._ledger.first_seq - 1), _PIECE):
                at, looked = record.seq, looked + 1
                if _is_wanted(record, globs):
                    found.append(self._event(record))
                if len(found) >= most:
                    return at, found
            await asyncio.sleep(0)
        return at, found

    def _event(self, record: Record) -> dict[str, Any]:
        said = {"seq": record.seq, "at": record.at, "topic": topic_of(record)}
        is_own = record.kind == Kind.PUBLISHED
        return said | {"event": self._published(record) if is_own else record_object(record)}

    def _published(self, record: Record) -> Any:
        body = self._ledger.body(record.seq) if record.nbytes else None
        codec = self._codecs.get(body.dialect) if body else None
        if body is None or codec is None:
            return None
        try:
            answer = codec.read_answer(body)
        except Unmappable as error:
            return str(error)
        return answer.value if answer.raw is None else answer.raw


def _is_wanted(record: Record, globs: tuple[str, ...]) -> bool:
    if record.task == TASK and record.service.lower() == MANAGEMENT:
        return False
    topic = topic_of(record)
    return any(fnmatchcase(topic, glob) for glob in globs)


def _globs(topics: Any) -> tuple[str, ...]:
    said = [topics] if isinstance(topics, str) else topics
    if not isinstance(said, list | tuple) or not all(isinstance(each, str) for each in said):
        raise ServiceFault(f"topics: {topics!r} is no glob, nor a list of them")
    return tuple(said) or ("*",)


def _between(said: Any, least: float, most: float) -> float:
    try:
        return min(max(float(said), least), most)
    except (TypeError, ValueError):
        raise ServiceFault(f"{said!r} is no number") from None
