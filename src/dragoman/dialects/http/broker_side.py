"""The broker's end of the HTTP link: events and effects pass as objects.

The web application runs in the broker's process. It makes the core's events itself and takes
effects as they are, so this link has no wire format: where other links have frames, it has objects.
The side only gives bodies their HTTP form.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

from dragoman.core.effects import (
    Append,
    Dismiss,
    Effect,
    JobStatus,
    PartStatus,
    SendBeat,
    SendInput,
    SendReply,
    SendStatus,
    SendWork,
)
from dragoman.core.events import Event
from dragoman.dialects.base import (
    Address,
    BodyCodecs,
    Send,
    Subscribed,
    convert_answer,
    convert_call,
    topic_of,
)
from dragoman.dialects.http.body_codec import NAME, HttpBodyCodec, write
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import name_of, raw_of
from dragoman.model.record import Kind, Record
from dragoman.model.value import value

#: The peer name of a worker session begins with this; the rest is its session id.
WORKER: Final = "worker:"
#: What the application hands over at once: events, subscriptions, and acknowledgements to send.
Items = Sequence[Event | Send | Subscribed]

_FIELDS: Final = tuple(f.name for f in fields(Record))


@value
class StreamedRecord:
    """One record for the subscription `tag`; `data` is JSON."""

    tag: str
    seq: int
    topic: str
    data: bytes


#: What the application takes from the broker.
Delivery = Effect | StreamedRecord


class HttpBrokerSide:
    """All HTTP clients and worker sessions of one link."""

    def __init__(self, link: str = NAME, *, codecs: BodyCodecs | None = None) -> None:
        self.link = link
        self._codecs = codecs or {NAME: HttpBodyCodec()}

    def receive(self, address: Address, frames: Any, now: float) -> Items:
        """Return what the application handed over."""
        items: Items = frames
        return items

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Return one effect for the application, with its bodies in HTTP form."""
        if isinstance(effect, SendReply):
            body, fault = self._result(effect.body, effect.worker)
            effect = replace(effect, body=body, fault=effect.fault or fault)
        elif isinstance(effect, SendStatus):
            effect = replace(effect, status=self._status(effect.status))
        elif isinstance(effect, SendWork):
            effect = replace(effect, body=convert_call(self._codecs, effect.body, NAME))
        elif isinstance(effect, SendInput):
            effect = replace(effect, body=convert_answer(self._codecs, effect.body, NAME))
        name = _receiver(effect)
        return [_send(name, effect, now)] if name else []

    def advance(self, now: float) -> Sequence[Event | Send]:
        """Do nothing: this side has no timers."""
        return []

    def next_deadline(self) -> float | None:
        """Return None: this side has no timers."""
        return None

    def _status(self, status: JobStatus | None) -> JobStatus | None:
        if status is None:
            return None
        return replace(status, parts=tuple(map(self._part, status.parts)))

    def _part(self, part: PartStatus) -> PartStatus:
        body, fault = self._result(part.body or EMPTY, part.worker)
        return replace(part, body=body, fault=part.fault or fault)

    def _result(self, body: Body, worker: str) -> tuple[Body, Fault | None]:
        """Return a result in HTTP form; a fault instead if it has no JSON form."""
        if not body.dialect:
            return EMPTY, None
        try:
            return convert_answer(self._codecs, body, NAME, worker), None
        except Unmappable as error:
            return EMPTY, Fault(FaultCode.UNMAPPABLE, f"the result has no JSON form: {error}")

    # --- events -------------------------------------------------------------------------------

    def render_event(
        self, subscription: Subscribed, record: Record, body: Body | None
    ) -> list[Send]:
        """Return one record for a subscription: a published event, or the record's fields."""
        topic = topic_of(record)
        content = {"seq": record.seq, "at": record.at, "topic": topic}
        try:
            data = write(content | {"event": self._event(record, body)})
        except Unmappable as error:
            data = write(content | {"event": str(error)})
        streamed = StreamedRecord(subscription.tag, record.seq, topic, data)
        return [_send(name_of(subscription.peer), streamed, record.at)]

    def _event(self, record: Record, body: Body | None) -> object:
        if record.kind != Kind.PUBLISHED:
            found = ((name, getattr(record, name)) for name in _FIELDS)
            return {name: value for name, value in found if value not in ("", 0, 0.0)}
        answer = self._published(body)
        return answer.raw if answer.raw is not None else answer.value

    def _published(self, body: Body | None) -> Answer:
        codec = self._codecs.get(body.dialect) if body else None
        if codec is None or body is None:
            return Answer()
        try:
            return codec.read_answer(body)
        except Unmappable as error:
            return Answer(str(error))


def _receiver(effect: Effect) -> str:
    """Return the peer name of an effect; empty if HTTP has no message for it."""
    if isinstance(effect, SendBeat):
        return ""  # the response to a poll is the heartbeat
    if isinstance(effect, SendReply | SendStatus):
        return name_of(effect.client)
    if isinstance(effect, Dismiss):
        name = name_of(effect.peer)
        return name if name.startswith(WORKER) else ""
    assert not isinstance(effect, Append)  # records are not for peers
    return name_of(effect.worker)


def _send(name: str, item: Delivery, now: float) -> Send:
    objects: Any = (item, now)
    return Send(raw_of(name), objects)
