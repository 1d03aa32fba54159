"""Polling for events: for dialects that cannot carry unrequested messages.

A poll names a position in the ledger and globs of topics. The answer has the next events and the
position of the next poll. A poll that finds nothing may wait for new records. Polls are jobs, so
they are recorded; polls never return the records of polls, or every answer would cause another.

Polling must not store the events in the ledger a second time. So the recorded answer holds only
the position. The server puts the events in while it sends the answer (`take_found`). A client that
lost an answer gets the recorded one, and polls again from its position.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from dragoman.dialects.base import BodyCodecs, record_object, topic_of
from dragoman.ledger.base import Entry, Ledger
from dragoman.model.content import Unmappable
from dragoman.model.record import Kind, Record
from dragoman.services.base import ServiceFault, ServiceSession
from dragoman.services.mmi import MANAGEMENT

TASK: Final = "events"
#: The longest wait for new records, and the interval of checks for a shutdown meanwhile.
LONGEST_WAIT: Final = 30.0
_LOOK: Final = 0.5
#: Seconds a waiting poll gathers new records: one answer for many, not one for each.
GATHER: Final = 0.1
#: Limits: events in one answer, records in one read, records scanned for one answer.
MOST_EVENTS: Final = 1000
_PIECE: Final = 1000
MOST_RECORDS: Final = 20_000
#: Polls that wait at a time; other management calls need the remaining credit.
MOST_WAITING: Final = 50
#: Answers not sent yet; as many as the management service runs jobs at a time.
MOST_FOUND: Final = 100


class EventPoll:
    """Answers polls for events."""

    def __init__(
        self, ledger: Ledger, codecs: BodyCodecs, is_going_down: Callable[[], bool]
    ) -> None:
        self._ledger = ledger
        self._codecs = codecs
        self._is_going_down = is_going_down
        self._arrived = asyncio.Event()
        self._waiting = 0
        #: By job, the answer to send in place of the recorded one.
        self._found: OrderedDict[str, dict[str, object]] = OrderedDict()

    def durable(self, entries: Sequence[Entry]) -> None:
        """Wake the waiting polls."""
        if self._waiting:
            self._arrived.set()

    async def events(
        self,
        session: ServiceSession,
        after: int = -1,
        topics: object = "*",
        limit: int = 100,
        wait: float = 0.0,
    ) -> dict[str, object]:
        """Find the next events after a position (-1: from now on); wait for some if `wait` is set.

        The return value is recorded and holds no events; `take_found` returns them.
        """
        globs, most = _globs(topics), int(_between(limit, 1, MOST_EVENTS))
        is_from_now = _between(after, -1, 2**62) < 0
        start = self._ledger.last_seq if is_from_now else int(after)
        found = await self._find(start, globs, most, self._patience(wait))
        if not found["events"]:
            return found
        self._found[session.job] = found
        if len(self._found) > MOST_FOUND:
            self._found.popitem(last=False)
        return {"after": start, "events": []}

    def take_found(self, job: str) -> dict[str, object] | None:
        """Return the events that a job found, once."""
        return self._found.pop(job, None)

    async def _find(
        self, at: int, globs: tuple[str, ...], most: int, patience: float
    ) -> dict[str, object]:
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
        self._arrived.clear()
        try:
            async with asyncio.timeout(at_most):
                await self._arrived.wait()
                await asyncio.sleep(GATHER)
        except TimeoutError:
            pass
        finally:
            self._waiting -= 1

    async def _scan(
        self, at: int, globs: tuple[str, ...], most: int
    ) -> tuple[int, list[dict[str, object]]]:
        """Read the next records; return the new position and the matching events."""
        found: list[dict[str, object]] = []
        looked = 0
        while looked < MOST_RECORDS and at < self._ledger.last_seq:
            # If retention has removed the records asked for, continue with the oldest one.
            for record in self._ledger.read(max(at, self._ledger.first_seq - 1), _PIECE):
                at, looked = record.seq, looked + 1
                if _is_wanted(record, globs):
                    found.append(self._event(record))
                if len(found) >= most:
                    return at, found
            await asyncio.sleep(0)
        return at, found

    def _event(self, record: Record) -> dict[str, object]:
        event = {"seq": record.seq, "at": record.at, "topic": topic_of(record)}
        is_own = record.kind == Kind.PUBLISHED
        return event | {"event": self._published(record) if is_own else record_object(record)}

    def _published(self, record: Record) -> object:
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


def _globs(topics: object) -> tuple[str, ...]:
    globs = [topics] if isinstance(topics, str) else topics
    if not isinstance(globs, list | tuple) or not all(isinstance(each, str) for each in globs):
        raise ServiceFault(f"topics: {topics!r} is neither a glob nor a list of globs")
    return tuple(globs) or ("*",)


def _between(number: Any, least: float, most: float) -> float:
    try:
        return min(max(float(number), least), most)
    except (TypeError, ValueError):
        raise ServiceFault(f"{number!r} is not a number") from None
