"""What a dialect is: the interfaces its folder fills, and how content crosses between dialects.

Each dialect folder has `wire` (stateless codec), `codec` (content <-> body), `broker_side`,
`client_side` and `worker_side`. Only this module, the model and the core's events and effects may
be imported there; one dialect never imports another.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from dragoman.core.effects import Effect
from dragoman.core.events import Event
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault
from dragoman.model.names import PeerId
from dragoman.model.record import Kind, Record
from dragoman.model.value import value

T = TypeVar("T")

#: Where a message comes from or goes to, as its transport knows it. Opaque to everybody else.
Address = bytes
Frames = Sequence[bytes]


class MalformedMessage(Exception):
    """What a peer sent cannot be read. Their fault; the message says what is wrong with it."""


@value
class Send:
    """Frames for an address: a dialect's own answer, or a rendered effect."""

    address: Address
    frames: Frames
    #: A direct answer that promises durability (an ack): it leaves only when every record that
    #: the same batch caused is on disk.
    is_strict: bool = False


@value
class Subscribed:
    """A client wants the events whose topic matches a glob, from the record after `after` on.

    `tag` names the subscription among those of its peer: the same tag again replaces it, and a
    subscription without topics ends it.
    """

    peer: PeerId
    topics: tuple[str, ...]
    after: int = 0
    tag: str = ""

    def wants(self, topic: str) -> bool:
        """Tell whether an event of this topic is asked for."""
        return any(fnmatchcase(topic, glob) for glob in self.topics)


def topic_of(record: Record) -> str:
    """Name the topic of a record: the publisher's own, or `broker.<kind>` for all else."""
    return record.detail if record.kind == Kind.PUBLISHED else f"broker.{record.kind}"


class BodyCodec(Protocol):
    """How one dialect writes content into bodies. All four raise `Unmappable` with a reason."""

    name: str

    def read_call(self, body: Body) -> Call:
        """Undress a request."""
        ...

    def write_call(self, call: Call) -> Body:
        """Dress a request."""
        ...

    def read_answer(self, body: Body) -> Answer:
        """Undress a worker's result (which may say that the task failed)."""
        ...

    def write_answer(self, answer: Answer) -> Body:
        """Dress a result."""
        ...


#: Every dialect's dress by name; the wiring makes it, so that no dialect imports another.
BodyCodecs = Mapping[str, BodyCodec]


def convert_call(
    codecs: BodyCodecs, body: Body, dialect: str, headers: Mapping[str, str] | None = None
) -> Body:
    """Give a request the form `dialect` expects; its own form passes untouched.

    `headers` are added to the call's own where it is dressed anew.
    """
    if body.dialect == dialect:
        return body
    call = _codec_of(codecs, body).read_call(body)
    if headers:
        call = replace(call, headers={**call.headers, **headers})
    return codecs[dialect].write_call(call)


def raw_as_argument(call: Call) -> Call:
    """Make a raw request that names a task a call with one argument.

    For dialects that have a place for the bytes of a request or for its task, and not for both.
    """
    if call.raw is None or not call.task:
        return call
    return replace(call, args=(call.raw,), raw=None)


def convert_answer(
    codecs: BodyCodecs,
    body: Body,
    dialect: str,
    worker: str = "",
    resources: tuple[str, ...] = (),
) -> Body:
    """Give a result the form `dialect` expects; its own form passes untouched."""
    if body.dialect == dialect:
        return body
    answer = _codec_of(codecs, body).read_answer(body)
    named = Answer(answer.value, answer.raw, answer.fault, worker or answer.worker, resources)
    return codecs[dialect].write_answer(named)


def keyed_by_worker(parts: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Key results by worker; one that had several parts of a job is there as often, numbered."""
    found: dict[str, T] = {}
    for worker, said in parts:
        found[worker if worker not in found else f"{worker}#{len(found)}"] = said
    return found


def _codec_of(codecs: BodyCodecs, body: Body) -> BodyCodec:
    try:
        return codecs[body.dialect]
    except KeyError:
        raise Unmappable(f"no dress for a body of dialect {body.dialect!r}") from None


class BrokerSide(Protocol):
    """The broker's end of one link: what peers say becomes events, effects become messages.

    `receive` raises `MalformedMessage` on what cannot be read and nothing else, whatever a peer
    sends. `render` raises `Unmappable` when content has no form here and nothing else. A side keeps
    whatever its wire lacks (parked replies, the job a result belongs to) and its own timers.
    """

    #: Name of the link; the part before the slash in the ids of its peers.
    link: str

    def receive(
        self, address: Address, frames: Frames, now: float
    ) -> Sequence[Event | Send | Subscribed]:
        """Take one message in."""
        ...

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Put one effect on a peer of this link into messages."""
        ...

    def advance(self, now: float) -> Sequence[Event | Send]:
        """Do what the side's own timers ask for."""
        ...

    def next_deadline(self) -> float | None:
        """When `advance` wants to be called next (seconds since the epoch)."""
        ...


class DenyingSide(BrokerSide, Protocol):
    """A side with words of its own for those who may not be heard. The others need none."""

    def deny(
        self,
        address: Address,
        frames: Frames,
        sends: list[Send] | None,
        fault: Fault,
        now: float,
    ) -> list[Send]:
        """Return what is said to a message that is refused, instead of `sends`.

        Those are what `receive` was going to say; None: the message came in another peer's name,
        and was not received at all. The core's own answers go out beside what is returned.
        """
        ...


class EventSide(BrokerSide, Protocol):
    """A side whose dialect offers events: only such sides return `Subscribed`."""

    def render_event(
        self, subscription: Subscribed, record: Record, body: Body | None
    ) -> list[Send]:
        """Put one record that the subscription wants into messages."""
        ...
