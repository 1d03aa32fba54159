"""The interfaces that a dialect implements, and the conversion of bodies between dialects.

Each dialect folder has `wire` (stateless codec), `codec` (content <-> body), `broker_side`,
`client_side` and `worker_side`. A dialect imports
only this module, its shared neighbours, the model, and the core's events and effects. One dialect
never imports another.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, ResultTooLarge, Unmappable
from dragoman.model.fault import Fault
from dragoman.model.names import PeerId
from dragoman.model.record import Kind, Record
from dragoman.model.value import value

if TYPE_CHECKING:
    # Clients import this module too, and have no use for the core's 70 classes.
    from dragoman.core.effects import Effect
    from dragoman.core.events import Event

T = TypeVar("T")
#: Largest result in bytes that a worker side sends. The broker's transports refuse larger messages
#: by default and close the connection; the job would run again.
RESULT_LIMIT: Final = 64 * 1024 * 1024 - 64 * 1024

#: The peer's address, as its transport writes it. Opaque to all other layers.
Address = bytes
Frames = Sequence[bytes]


def is_unnamed(address: Address) -> bool:
    """Tell whether the transport made this address up: the peer has another one next time."""
    return address[:1] == b"\0"


class MalformedMessage(Exception):
    """The peer sent a message that cannot be read. The text says what is wrong with it."""


@value
class Send:
    """Frames to send to an address: a side's own answer, or a rendered effect."""

    address: Address
    frames: Frames
    #: True for an acknowledgement that promises durability. It is sent only when all records of
    #: its batch are on disk.
    is_strict: bool = False


@value
class Subscribed:
    """A client subscribes to events whose topic matches a glob, after the ledger position `after`.

    `tag` identifies the subscription among those of its peer. The same tag replaces it; no topics
    end it.
    """

    peer: PeerId
    topics: tuple[str, ...]
    after: int = 0
    tag: str = ""

    def wants(self, topic: str) -> bool:
        """Return whether the topic matches one of the globs."""
        return any(fnmatchcase(topic, glob) for glob in self.topics)


def topic_of(record: Record) -> str:
    """Return the topic of a record: the publisher's own, or `broker.<kind>`."""
    return record.detail if record.kind == Kind.PUBLISHED else f"broker.{record.kind}"


def record_object(record: Record) -> dict[str, object]:
    """Return a record as an object, without its empty fields."""
    found = {f.name: getattr(record, f.name) for f in fields(record)}
    return {name: value for name, value in found.items() if value not in ("", 0)}


class BodyCodec(Protocol):
    """Converts content to one dialect's bodies and back. All four raise `Unmappable`."""

    name: str

    def read_call(self, body: Body) -> Call:
        """Decode a request."""
        ...

    def write_call(self, call: Call) -> Body:
        """Encode a request."""
        ...

    def read_answer(self, body: Body) -> Answer:
        """Decode a worker's result, or the fault in it."""
        ...

    def write_answer(self, answer: Answer) -> Body:
        """Encode a result."""
        ...


#: All body codecs by dialect name. Sides receive it, so that no dialect imports another.
BodyCodecs = Mapping[str, BodyCodec]


def convert_call(
    codecs: BodyCodecs, body: Body, dialect: str, headers: Mapping[str, str] | None = None
) -> Body:
    """Convert a request to `dialect`. A body of that dialect is returned unchanged.

    `headers` are added to the call's own when the body is converted.
    """
    if body.dialect == dialect:
        return body
    call = _codec_of(codecs, body).read_call(body)
    if headers:
        call = replace(call, headers={**call.headers, **headers})
    return codecs[dialect].write_call(call)


def raw_as_argument(call: Call) -> Call:
    """Turn a raw request that names a task into a call with one argument.

    For dialects that can carry raw bytes or a task, but not both.
    """
    if call.raw is None or not call.task:
        return call
    return replace(call, args=(call.raw,), raw=None)


def check_result_size(parts: Iterable[bytes], limit: int = RESULT_LIMIT) -> None:
    """Raise `ResultTooLarge` if an encoded result exceeds the limit."""
    size = sum(map(len, parts))
    if size > limit:
        raise ResultTooLarge(f"the result has {size} bytes; the limit is {limit}")


def convert_answer(
    codecs: BodyCodecs,
    body: Body,
    dialect: str,
    worker: str = "",
    resources: tuple[str, ...] = (),
) -> Body:
    """Convert a result to `dialect`. A body of that dialect is returned unchanged."""
    if body.dialect == dialect:
        return body
    answer = _codec_of(codecs, body).read_answer(body)
    named = Answer(answer.value, answer.raw, answer.fault, worker or answer.worker, resources)
    return codecs[dialect].write_answer(named)


def keyed_by_worker(parts: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Key results by worker. Further parts of the same worker get a `#number` suffix."""
    found: dict[str, T] = {}
    for worker, result in parts:
        found[worker if worker not in found else f"{worker}#{len(found)}"] = result
    return found


def _codec_of(codecs: BodyCodecs, body: Body) -> BodyCodec:
    try:
        return codecs[body.dialect]
    except KeyError:
        raise Unmappable(f"no body codec for dialect {body.dialect!r}") from None


class BrokerSide(Protocol):
    """The broker's end of one link: turns messages into events, and effects into messages.

    Whatever a peer sends, `receive` raises nothing but `MalformedMessage`. `render` raises nothing
    but `Unmappable`, if the dialect cannot carry the content. A side keeps the state that its wire
    format lacks (parked replies, the job of a result) and its own timers.
    """

    #: Name of the link: the part before the slash in the ids of its peers.
    link: str

    def receive(
        self, address: Address, frames: Frames, now: float
    ) -> "Sequence[Event | Send | Subscribed]":
        """Decode one message into events and direct answers."""
        ...

    def render(self, effect: "Effect", now: float) -> list[Send]:
        """Encode one effect for a peer of this link."""
        ...

    def advance(self, now: float) -> "Sequence[Event | Send]":
        """Run the timers that are due."""
        ...

    def next_deadline(self) -> float | None:
        """Return when the next timer is due, in seconds since the epoch."""
        ...


class DenyingSide(BrokerSide, Protocol):
    """A side whose protocol has an answer for a message that security refuses."""

    def deny(
        self,
        address: Address,
        frames: Frames,
        sends: list[Send] | None,
        fault: Fault,
        now: float,
    ) -> list[Send]:
        """Return what to send for a refused message, in place of `sends`.

        `sends` are the direct answers of `receive`. None: the message was sent in another peer's
        name, and `receive` was not called. The core's answers are sent as well.
        """
        ...


class EventSide(BrokerSide, Protocol):
    """A side whose dialect has event subscriptions. Only such sides return `Subscribed`."""

    def render_event(
        self, subscription: Subscribed, record: Record, body: Body | None
    ) -> list[Send]:
        """Encode one record for a subscriber."""
        ...
