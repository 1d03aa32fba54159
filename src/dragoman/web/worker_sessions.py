"""HTTP workers as peers of the broker: each session has the messages that wait for its polls."""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count, islice
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dragoman.core.effects import Dismiss, SendCancel, SendInput, SendPoll, SendWork
from dragoman.core.events import BeatReceived, Event
from dragoman.dialects.http.assignments import HttpAssignments
from dragoman.dialects.http.body_codec import NAME, members
from dragoman.dialects.http.broker_side import WORKER, Delivery
from dragoman.model.names import name_of, peer_id
from dragoman.model.target import resources_of
from dragoman.model.value import value
from dragoman.transports.base import Sent
from dragoman.web.broker_connection import WebBrokerConnection, resolve
from dragoman.web.job_documents import answer
from dragoman.web.problems import Problem
from dragoman.web.request_reading import BYTES, failing_on_disconnect

#: Most sessions at a time; one more is refused.
MOST: Final = 10_000
#: Most messages that wait for one worker; further ones are undeliverable.
MOST_MESSAGES: Final = 20_000


@value
class WorkerMessage:
    """One message for a worker, with its number in the session."""

    number: int
    effect: SendWork | SendCancel | SendInput
    #: When the broker sent it.
    sent_at: float


class WorkerSession:
    """One worker's session."""

    def __init__(
        self, connection: WebBrokerConnection, id_: str, assignments: HttpAssignments
    ) -> None:
        self.id = id_
        self.peer = peer_id(NAME, WORKER + id_)
        self.address = f"{WORKER}{id_}".encode()
        #: Why it ended; empty while it lasts.
        self.ended = ""
        self._connection = connection
        self._assignments = assignments
        self._messages: deque[WorkerMessage] = deque()
        self._numbers = count(1)
        self._delivered = 0
        self._polls = 0
        #: Resolved when the waiting poll has to look again.
        self._news: asyncio.Future[None] | None = None
        connection.connect(self.address, self)

    def tell(self, event: Event) -> None:
        """Hand an event over, without waiting."""
        self._connection.hand_over(self.address, event)

    async def commit(self, *events: Event) -> None:
        """Hand events over and wait until they are on disk; raise if the session has ended."""
        await self._connection.commit(self.address, *events)
        self.require()

    def require(self) -> None:
        """Raise the problem of a session that has ended."""
        if self.ended:
            raise unknown_session(self.ended)

    # --- from the broker ----------------------------------------------------------------------

    def take(self, item: Delivery, now: float) -> Sent:
        """Take a message for the worker, or the end of the session."""
        if isinstance(item, Dismiss):
            self.end(item.reason or "the session has ended")
            return Sent.YES
        if isinstance(item, SendWork | SendPoll):
            self._assignments.add(self.id, item.job, item.attempt)
        if isinstance(item, SendWork | SendCancel | SendInput):
            if len(self._messages) >= MOST_MESSAGES:
                return Sent.FULL
            self._messages.append(WorkerMessage(next(self._numbers), item, now))
            self._wake_poll()
        return Sent.YES

    def end(self, reason: str) -> None:
        """End the session and its poll."""
        self.ended = reason
        self._assignments.forget(self.id)
        self._wake_poll()

    def _wake_poll(self) -> None:
        if self._news is not None:
            resolve(self._news, None)

    # --- polls --------------------------------------------------------------------------------

    def acknowledge(self, after: int | None) -> None:
        """Forget the messages that arrived; without a number, all that were delivered."""
        after = self._delivered if after is None else after
        while self._messages and self._messages[0].number <= after:
            self._messages.popleft()

    async def next_messages(
        self, request: Request, wait: float, beat_every: float, most: int
    ) -> list[WorkerMessage]:
        """Wait for messages and send heartbeats meanwhile; empty if none came."""
        self._polls = poll = self._polls + 1
        self._wake_poll()  # an older poll of this worker ends
        clock = asyncio.get_running_loop().time
        until = clock() + wait
        while not self._messages and not self.ended and self._polls == poll:
            self.tell(BeatReceived(self.peer))
            left = until - clock()
            if left <= 0:
                return []
            await self._look_again(request, min(left, beat_every))
        if self._polls != poll or self.ended:
            return []
        found = list(islice(self._messages, most))
        self._delivered = max(self._delivered, found[-1].number)
        return found

    async def _look_again(self, request: Request, at_most: float) -> None:
        self._news = news = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(at_most):
                with failing_on_disconnect(request, news):
                    await news
        except TimeoutError:
            return


class HttpWorkerSessions:
    """The sessions of all workers."""

    def __init__(
        self, connection: WebBrokerConnection, remembered: int, new_id: Callable[[], str]
    ) -> None:
        self._connection = connection
        self._new_id = new_id
        self.assignments = HttpAssignments(remembered)
        self._sessions: dict[str, WorkerSession] = {}

    def open(self, id_: str | None) -> WorkerSession:
        """Return the session of this id, or a new one; it may be of an earlier process."""
        if id_ is not None:
            self._connection.check(f"{WORKER}{id_}".encode())
        found = self._sessions.get(id_ or "")
        if found is not None and not found.ended:
            return found
        for ended in [s for s in self._sessions.values() if s.ended]:
            self.drop(ended)
        if len(self._sessions) >= MOST:
            raise Problem(429, f"{MOST} workers are registered already", "too_many_workers")
        session = WorkerSession(self._connection, id_ or self._new_id(), self.assignments)
        self._sessions[session.id] = session
        return session

    def drop(self, session: WorkerSession) -> None:
        """Remove a session."""
        del self._sessions[session.id]
        self._connection.disconnect(session.address)

    def find(self, id_: str) -> WorkerSession:
        """Return a session that lasts; raise a problem otherwise."""
        session = self._sessions.get(id_)
        if session is None:
            raise unknown_session("no such session here")
        session.require()
        self._connection.check(session.address)
        return session

    def close(self) -> None:
        """End all sessions: the broker is stopping."""
        for session in self._sessions.values():
            session.end("the broker is stopping")


def unknown_session(reason: str) -> Problem:
    """Return the problem of a session that has ended."""
    return Problem(404, f"{reason}; register again with POST /v1/workers", "unknown_session")


# --- messages as responses --------------------------------------------------------------------


def message_document(message: WorkerMessage) -> dict[str, object]:
    """Return a message as JSON."""
    effect = message.effect
    kind = _KINDS[type(effect)]
    document: dict[str, object] = {"word": message.number, "kind": kind, "job": effect.job}
    if not isinstance(effect, SendInput):
        document["attempt"] = effect.attempt
    if isinstance(effect, SendCancel):
        return document
    content = members(effect.body)
    if isinstance(effect, SendWork):
        document |= _work(effect)
        left = None if effect.run_until is None else effect.run_until - message.sent_at
        content |= {"timeout": None if left is None else max(0.0, round(left, 3))}
    return document | content


def message_response(message: WorkerMessage, is_raw: bool) -> Response:
    """Return one message; its headers are for workers that cannot read JSON."""
    effect, document = message.effect, message_document(message)
    headers = {
        "Dragoman-Word": str(message.number),
        "Dragoman-Kind": _KINDS[type(effect)],
        "Dragoman-Job": quote(effect.job, safe=""),
    }
    if not isinstance(effect, SendInput):
        headers["Dragoman-Attempt"] = str(effect.attempt)
    if isinstance(effect, SendWork):
        task = members(effect.body).get("task", b'""')
        headers["Dragoman-Service"] = quote(effect.service, safe="")
        headers["Dragoman-Task"] = quote(msgspec.json.decode(task), safe="")
    if is_raw and not isinstance(effect, SendCancel) and len(effect.body.parts) > 1:
        return Response(effect.body.parts[1], 200, headers, BYTES)
    return answer(document, headers=headers)


def _work(effect: SendWork) -> dict[str, object]:
    document = {"service": effect.service, "client": name_of(effect.client)}
    resources = resources_of(effect.target)
    empty_call: dict[str, object] = {"task": "", "args": [], "kwargs": {}}
    return document | ({"resources": resources} if resources else {}) | empty_call


_KINDS: Final[dict[type, str]] = {SendWork: "job", SendCancel: "cancel", SendInput: "input"}
