"""HTTP clients as peers of the broker.

All requests of a client share its channel; answers are matched by job. A request that waits for the
end of a job gets the broker's final reply, or, if the job was submitted by another client, the news
that the ledger has its end.
"""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from dragoman.core.effects import RequestKind, SendReply, SendStatus
from dragoman.core.events import (
    Event,
    InputReceived,
    JobCancelled,
    JobSubmitted,
    ReplyKind,
    ResultRequested,
)
from dragoman.dialects.base import Subscribed
from dragoman.dialects.http.body_codec import NAME
from dragoman.dialects.http.broker_side import Delivery, StreamedRecord
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, peer_id
from dragoman.transports.base import Sent
from dragoman.web.broker_connection import WebBrokerConnection, answered, resolve, stopping
from dragoman.web.problems import of_fault

#: Most channels kept; beyond that the idle one used longest ago is dropped.
MOST: Final = 10_000


class Waiters:
    """Futures by what they wait for."""

    def __init__(self) -> None:
        self._by_key: defaultdict[Hashable, list[asyncio.Future[Any]]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    @contextmanager
    def waiting(self, key: Hashable, future: "asyncio.Future[Any]") -> Iterator[None]:
        """Let a future wait for `key` inside the block."""
        self._by_key[key].append(future)
        try:
            yield
        finally:
            self._by_key[key].remove(future)
            if not self._by_key[key]:
                del self._by_key[key]

    def resolve(self, key: Hashable, result: object) -> None:
        """Give every future that waits for `key` its result."""
        for future in self._by_key.get(key, ()):
            resolve(future, result)


class ClientChannel:
    """One client's channel to the broker."""

    def __init__(self, connection: WebBrokerConnection, name: str) -> None:
        self._connection = connection
        self._address = name.encode()
        self.peer = peer_id(NAME, name)
        connection.connect(self._address, self)
        #: Submissions that wait for the first reply, which is their acknowledgement.
        self._submissions = Waiters()
        #: Inputs that are not acknowledged, with the fault of a refused one.
        self._unacknowledged: dict[JobId, Fault | None] = {}
        self._statuses = Waiters()
        self.finals = Waiters()
        #: Called with every reply to this client.
        self.inbox: Callable[[SendReply], None] | None = None
        #: Called with the records of each subscription, by tag.
        self.streams: dict[str, Callable[[StreamedRecord], None]] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no request uses this channel."""
        waits = self._submissions or self._unacknowledged or self._statuses or self.finals
        return not (waits or self.inbox or self.streams)

    def tell(self, item: Event | Subscribed) -> None:
        """Hand an event or a subscription over, without waiting."""
        self._connection.hand_over(self._address, item)

    async def submit(self, event: JobSubmitted) -> None:
        """Submit a job and wait for its first reply; raise the problem of a refusal.

        A reply about a strict job leaves the broker when the job is on disk.
        """
        with self._connection.future() as first, self._submissions.waiting(event.job, first):
            self.tell(event)
            reply: SendReply = await answered(first)
        if (fault := _refusal(reply)) is not None:
            raise of_fault(fault, job=event.job)

    async def submit_many(self, events: Sequence[JobSubmitted]) -> list[Fault | None]:
        """Submit jobs in one turn and wait for their first replies; return the refusals."""
        with ExitStack() as waits:
            firsts: list[asyncio.Future[Any]] = []
            for event in events:
                first = waits.enter_context(self._connection.future())
                waits.enter_context(self._submissions.waiting(event.job, first))
                firsts.append(first)
            self._connection.hand_over(self._address, *events)
            replies: list[SendReply] = await answered(asyncio.gather(*firsts))
        return [_refusal(reply) for reply in replies]

    async def commit(self, event: InputReceived) -> None:
        """Hand an input over and wait until it is on disk; raise the problem of a refusal."""
        self._unacknowledged.setdefault(event.job)
        try:
            await self._connection.commit(self._address, event)
        finally:
            fault = self._unacknowledged.pop(event.job, None)
        if fault is not None:
            raise of_fault(fault, job=event.job)

    async def ask(self, event: ResultRequested | JobCancelled) -> SendStatus:
        """Ask for the status of a job, or cancel it; return the broker's answer."""
        is_cancel = isinstance(event, JobCancelled)
        key = (RequestKind.CANCEL if is_cancel else RequestKind.RESULT, event.job)
        with self._connection.future() as future, self._statuses.waiting(key, future):
            self.tell(event)
            status: SendStatus = await answered(future)
            return status

    def take(self, item: Delivery, now: float) -> Sent:
        """Take a reply, a status or a streamed record."""
        if isinstance(item, SendReply):
            self._take_reply(item)
        elif isinstance(item, SendStatus):
            self._take_status(item)
        elif isinstance(item, StreamedRecord) and item.tag in self.streams:
            self.streams[item.tag](item)
        return Sent.YES

    def _take_reply(self, reply: SendReply) -> None:
        self._submissions.resolve(reply.job, reply)
        if reply.kind is ReplyKind.FINAL:
            if reply.state is None and reply.job in self._unacknowledged:
                self._unacknowledged[reply.job] = reply.fault
            self.finals.resolve(reply.job, reply)
        if self.inbox is not None:
            self.inbox(reply)

    def _take_status(self, status: SendStatus) -> None:
        if status.asked is not RequestKind.INPUT:
            self._statuses.resolve((status.asked, status.job), status)
        elif status.job in self._unacknowledged:
            self._unacknowledged[status.job] = status.fault or Fault(FaultCode.UNKNOWN_JOB)


def _refusal(reply: SendReply) -> Fault | None:
    """Return the fault of a job that was not taken."""
    is_refused = reply.kind is ReplyKind.FINAL and reply.state is None
    return reply.fault if is_refused else None


class ClientChannels:
    """The channels of all clients, and the requests that wait for the end of a job."""

    def __init__(self, connection: WebBrokerConnection) -> None:
        self.connection = connection
        self._channels: OrderedDict[str, ClientChannel] = OrderedDict()
        #: By the job's own id; resolved with None when the ledger has its end.
        self.endings = Waiters()

    def of(self, client: str) -> ClientChannel:
        """Return a client's channel."""
        if self.connection.is_closing.is_set():
            raise stopping()
        self.connection.check(client.encode())
        channel = self._channels.get(client)
        if channel is None:
            channel = self._channels[client] = ClientChannel(self.connection, client)
            self._drop_idle()
        else:
            self._channels.move_to_end(client)
        return channel

    def _drop_idle(self) -> None:
        if len(self._channels) <= MOST:
            return
        for name, channel in list(self._channels.items())[:100]:
            if channel.is_idle:
                del self._channels[name]
                self.connection.disconnect(name.encode())
                return
