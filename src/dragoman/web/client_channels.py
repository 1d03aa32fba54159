"""Lines: how HTTP callers reach the broker, each client as one peer of the link.

Requests of a client share its line; answers are told apart by job and request. Who waits for a job
to end watches the ledger for it, so it makes no difference whose job it is.
"""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, TypeVar

from dragoman.dialects.base import Frames
from dragoman.dialects.http import wire
from dragoman.dialects.http.body_codec import code_of
from dragoman.model.fault import Fault
from dragoman.transports.memory import MemoryHub
from dragoman.web.problems import Problem, of_fault

T = TypeVar("T")

#: Lines kept; beyond that the one used longest ago goes, if nobody waits on it.
MOST: Final = 10_000
#: How long the broker may take to answer a question.
PATIENCE: Final = 30.0

#: A standing and the bodies of its parts.
Standing = tuple[wire.Standing, tuple[bytes, ...]]
Listener = Callable[[Any, tuple[bytes, ...]], None]


class ClientChannel:
    """One client's line to the broker."""

    def __init__(self, hub: MemoryHub, name: str) -> None:
        self._peer = hub.connect(name.encode())
        self._peer.wake = self._receive
        self._numbers = count(1)
        #: By request, the job it is about and who waits for it.
        self._heard: dict[str, tuple[str, asyncio.Future[Fault | None]]] = {}
        #: What was refused, by job, until the request it belongs to is heard.
        self._refused: dict[str, Fault] = {}
        self._asked: defaultdict[tuple[str, str], list[asyncio.Future[Standing]]]
        self._asked = defaultdict(list)
        #: Whoever listens to all that this client is told.
        self.inbox: Listener | None = None
        #: Subscriptions by name.
        self.streams: dict[str, Listener] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits on this line."""
        return not (self._heard or self._asked or self.inbox or self.streams)

    def say(self, message: wire.Message, parts: Frames = ()) -> None:
        """Say something that is not answered here."""
        self._peer.say(wire.encode(message, parts))

    def new_request(self) -> str:
        """Return a name for a request."""
        return str(next(self._numbers))

    async def deliver(self, message: "wire.Submit | wire.Input", parts: Frames) -> None:
        """Say something and wait until it is durable; raises what it was refused with."""
        future: asyncio.Future[Fault | None] = asyncio.get_running_loop().create_future()
        self._heard[message.request] = (message.job, future)
        self.say(message, parts)
        try:
            fault = await _patiently(future)
        finally:
            self._heard.pop(message.request, None)
        if fault is not None:
            raise of_fault(fault, job=message.job)

    async def ask(self, message: "wire.Ask | wire.Cancel") -> Standing:
        """Ask how a job stands, or for it to stop; wait for the answer."""
        asked = "cancel" if isinstance(message, wire.Cancel) else "result"
        waiting = self._asked[asked, message.job]
        future: asyncio.Future[Standing] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        self.say(message)
        try:
            return await _patiently(future)
        finally:
            if future in waiting:
                waiting.remove(future)
            if not waiting:
                self._asked.pop((asked, message.job), None)

    def _receive(self) -> None:
        inbox = self._peer.inbox
        while inbox:
            message, parts = wire.decode(inbox.popleft())
            _TAKERS[type(message)](self, message, parts)

    def _told(self, told: wire.Told, parts: tuple[bytes, ...]) -> None:
        if told.about == "final" and not told.state and told.fault:
            self._refused[told.job] = Fault(code_of(told.fault), told.words)
        if self.inbox is not None:
            self.inbox(told, parts)

    def _hear(self, heard: wire.Heard, parts: tuple[bytes, ...]) -> None:
        job, future = self._heard.get(heard.request, ("", None))
        refused = self._refused.pop(job, None)
        if future is not None and not future.done():
            future.set_result(refused)

    def _stand(self, standing: wire.Standing, parts: tuple[bytes, ...]) -> None:
        if standing.asked == "input":
            self._refused[standing.job] = Fault(code_of(standing.fault), standing.words)
            return
        for future in self._asked.get((standing.asked, standing.job), ()):
            if not future.done():
                future.set_result((standing, parts))

    def _event(self, event: wire.Event, parts: tuple[bytes, ...]) -> None:
        listener = self.streams.get(event.name)
        if listener is not None:
            listener(event, parts)

    def hang_up(self) -> None:
        """Let everybody who waits know that the broker is going down."""
        waiting: list[asyncio.Future[Any]] = [future for _, future in self._heard.values()]
        waiting += [future for futures in self._asked.values() for future in futures]
        for future in waiting:
            if not future.done():
                future.set_exception(going_down())


_TAKERS: Final[dict[type, Callable[[ClientChannel, Any, tuple[bytes, ...]], None]]] = {
    wire.Told: ClientChannel._told,
    wire.Heard: ClientChannel._hear,
    wire.Standing: ClientChannel._stand,
    wire.Event: ClientChannel._event,
}


class ClientChannels:
    """All lines of the door, and the watch on jobs that end."""

    def __init__(self, hub: MemoryHub) -> None:
        self._hub = hub
        self._lines: OrderedDict[str, ClientChannel] = OrderedDict()
        self._watch = ClientChannel(hub, wire.WATCH)
        self._watch.streams["ended"] = self._ended
        self._watchers: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.is_closing = asyncio.Event()

    def of(self, client: str) -> ClientChannel:
        """Return a client's line."""
        if self.is_closing.is_set():
            raise going_down()
        self._hub.check(client.encode())
        line = self._lines.get(client)
        if line is None:
            line = self._lines[client] = ClientChannel(self._hub, client)
            self._let_go()
        else:
            self._lines.move_to_end(client)
        return line

    def _let_go(self) -> None:
        if len(self._lines) <= MOST:
            return
        for name, line in list(self._lines.items())[:100]:
            if line.is_idle:
                del self._lines[name]
                self._hub.disconnect(name.encode())
                return

    @contextmanager
    def watching(self, job: str) -> Iterator[asyncio.Event]:
        """Give an event that is set when the job ends, or the door closes."""
        if not self._watchers:
            self._watch.say(wire.Subscribe("ended", ("broker.ended",), -1))
        event = asyncio.Event()
        self._watchers[job].add(event)
        try:
            yield event
        finally:
            self._watchers[job].discard(event)
            if not self._watchers[job]:
                del self._watchers[job]
            if not self._watchers:
                self._watch.say(wire.Subscribe("ended"))

    async def ended(self, event: asyncio.Event, wait: float) -> None:
        """Wait for an event of `watching`, at most so long."""
        try:
            async with asyncio.timeout(wait):
                await event.wait()
        except TimeoutError:
            return
        if self.is_closing.is_set():
            raise going_down()

    def _ended(self, event: wire.Event, parts: tuple[bytes, ...]) -> None:
        for each in self._watchers.get(event.job, ()):
            each.set()

    def close(self) -> None:
        """End all waiting: the broker is going down."""
        self.is_closing.set()
        for line in self._lines.values():
            line.hang_up()
        for events in self._watchers.values():
            for event in events:
                event.set()


async def _patiently(future: "asyncio.Future[T]") -> T:
    try:
        async with asyncio.timeout(PATIENCE):
            return await future
    except TimeoutError:
        raise Problem(503, f"the broker did not answer within {PATIENCE:g} s", "busy") from None


def going_down() -> Problem:
    """Say that the broker is going down."""
    return Problem(
        503, "the broker is going down; ask again later", "draining", headers={"Retry-After": "2"}
    )
