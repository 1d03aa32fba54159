"""The broker's end of the HTTP link: what the web application passes on becomes events.

Nothing is parked here: requests that wait are the web application's matter. What a client asks for
is acknowledged by `Heard`, which follows every other answer to it and leaves when all is durable.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final

from dragoman.core.effects import (
    Dismiss,
    Effect,
    PartStatus,
    SendBeat,
    SendCancel,
    SendInput,
    SendPoll,
    SendReply,
    SendStatus,
    SendWork,
)
from dragoman.core.events import (
    Event,
    InputReceived,
    JobCancelled,
    JobSubmitted,
    ResultRequested,
)
from dragoman.dialects.base import (
    Address,
    BodyCodecs,
    Frames,
    MalformedMessage,
    Send,
    Subscribed,
    convert_answer,
    topic_of,
)
from dragoman.dialects.http import wire
from dragoman.dialects.http.body_codec import NAME, HttpBodyCodec, write
from dragoman.dialects.http.settings import HttpSettings
from dragoman.dialects.http.workers import Workers, heard, to
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import (
    JobId,
    PeerId,
    ServiceName,
    WorkerName,
    name_of,
    peer_id,
    text_of,
)
from dragoman.model.record import Kind, Record
from dragoman.model.target import parse_target
from dragoman.model.terms import Terms

Heard = Sequence[Event | Send | Subscribed]

_FIELDS: Final = tuple(f.name for f in fields(Record))


class HttpBrokerSide:
    """HTTP as the broker speaks it."""

    def __init__(
        self,
        link: str = NAME,
        *,
        codecs: BodyCodecs | None = None,
        settings: HttpSettings | None = None,
    ) -> None:
        self.link = link
        self.settings = settings or HttpSettings()
        self._codecs = codecs or {NAME: HttpBodyCodec()}
        self._codec = HttpBodyCodec()
        self.workers = workers = Workers(self._codecs, self.settings)
        self._takers: dict[type, Callable[[PeerId, Any, Frames], Heard]] = {
            wire.Submit: self._submit,
            wire.Ask: self._ask,
            wire.Cancel: self._cancel,
            wire.Input: self._input,
            wire.Subscribe: self._subscribe,
            wire.Join: workers.join,
            wire.Beat: workers.beat,
            wire.Report: workers.report,
            wire.Forward: workers.forward,
            wire.Publish: workers.publish,
            wire.Leave: workers.leave,
        }
        self._renderers: dict[type, Callable[[Any, float], list[Send]]] = {
            SendReply: self._reply,
            SendStatus: self._status,
            SendWork: workers.work,
            SendInput: workers.give_input,
            SendCancel: workers.stop,
            SendPoll: workers.poll,
            SendBeat: lambda effect, now: [],
            Dismiss: lambda effect, now: self._dismiss(effect),
        }

    def receive(self, address: Address, frames: Frames, now: float) -> Heard:
        """Take one message in."""
        message, parts = wire.decode(frames)
        take = self._takers.get(type(message))
        if take is None:
            raise MalformedMessage("a broker's message came to a broker")
        return take(peer_id(self.link, text_of(address)), message, parts)

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Put one effect on a peer of this link into messages."""
        return self._renderers[type(effect)](effect, now)

    def advance(self, now: float) -> Sequence[Event | Send]:
        """Nothing is timed here."""
        return []

    def next_deadline(self) -> float | None:
        """Nothing is timed here."""
        return None

    def validate(self) -> None:
        """Assert that every memory is within its bound."""
        self.workers.validate()

    # --- what clients say ---------------------------------------------------------------------

    def _submit(self, peer: PeerId, said: wire.Submit, parts: Frames) -> Heard:
        try:
            target = parse_target(said.target)
        except ValueError as why:
            raise MalformedMessage(str(why)) from None
        terms = Terms(
            patience=self.settings.patience,
            timeout=said.timeout if said.timeout is not None else self.settings.timeout,
            priority=said.priority,
        )
        submitted = JobSubmitted(
            JobId(said.job),
            peer,
            ServiceName(said.service),
            Body(NAME, tuple(parts)),
            target,
            terms,
            said.task,
            said.key,
        )
        return [submitted, heard(peer, said.request)]

    def _ask(self, peer: PeerId, said: wire.Ask, parts: Frames) -> Heard:
        return [ResultRequested(JobId(said.job), peer)]

    def _cancel(self, peer: PeerId, said: wire.Cancel, parts: Frames) -> Heard:
        return [JobCancelled(JobId(said.job), peer)]

    def _input(self, peer: PeerId, said: wire.Input, parts: Frames) -> Heard:
        worker = WorkerName(said.worker) if said.worker else None
        given = InputReceived(JobId(said.job), peer, Body(NAME, tuple(parts)), worker)
        return [given, heard(peer, said.request)]

    def _subscribe(self, peer: PeerId, said: wire.Subscribe, parts: Frames) -> Heard:
        return [Subscribed(peer, said.topics, said.after, said.name)]

    # --- what clients are told ----------------------------------------------------------------

    def _reply(self, effect: SendReply, now: float) -> list[Send]:
        body, trouble = self._dressed(effect.body, effect.worker)
        fault = effect.fault or trouble
        told = wire.Told(
            effect.job,
            effect.kind.value,
            effect.service,
            effect.worker,
            effect.workers,
            effect.state.value if effect.state else "",
            fault.code.value if fault else "",
            fault.message if fault else "",
            effect.resources,
        )
        return [to(effect.client, told, body.parts)]

    def _status(self, effect: SendStatus, now: float) -> list[Send]:
        status, fault = effect.status, effect.fault
        standing = wire.Standing(effect.asked.value, effect.job)
        if fault is not None:
            standing.fault, standing.words = fault.code.value, fault.message
        if status is None:
            return [to(effect.client, standing)]
        shares, frames = self._shares(status.parts)
        standing.known_as, standing.state = status.job, status.state.value
        standing.service, standing.task, standing.target = (
            status.service,
            status.task,
            status.target,
        )
        standing.client, standing.shares = status.client, shares
        standing.is_waiting_for_input = status.is_waiting_for_input
        standing.is_cancelling = status.is_cancelling
        standing.submitted_at, standing.ended_at = status.submitted_at, status.ended_at
        return [to(effect.client, standing, frames)]

    def _shares(self, parts: Sequence[PartStatus]) -> tuple[tuple[wire.Share, ...], list[bytes]]:
        shares: list[wire.Share] = []
        frames: list[bytes] = []
        for part in parts:
            body, trouble = self._dressed(part.body or EMPTY, part.worker)
            fault = part.fault or trouble
            frames += body.parts
            share = wire.Share(part.worker, part.state.value, part.attempt)
            share.frames, share.resources = len(body.parts), part.resources
            if fault is not None:
                share.fault, share.words = fault.code.value, fault.message
            shares.append(share)
        return tuple(shares), frames

    def _dressed(self, body: Body, worker: str) -> tuple[Body, Fault | None]:
        """Dress what a worker said; what has no form in JSON becomes a fault that says so."""
        if not body.dialect:
            return EMPTY, None
        try:
            dressed = convert_answer(self._codecs, body, NAME, worker)
        except Unmappable as why:
            return EMPTY, Fault(FaultCode.UNMAPPABLE, f"the result cannot be told here: {why}")
        return dressed, None

    def _dismiss(self, effect: Dismiss) -> list[Send]:
        if name_of(effect.peer).startswith(wire.WORKER):
            return self.workers.dismiss(effect.peer, effect.reason)
        return []

    # --- events -------------------------------------------------------------------------------

    def render_event(
        self, subscription: Subscribed, record: Record, body: Body | None
    ) -> list[Send]:
        """Offer one record: a worker's own event, or what the broker did."""
        event = wire.Event(subscription.tag, record.seq, topic_of(record), record.job)
        if name_of(subscription.peer) == wire.WATCH:
            # The application itself only wants to know which job it was.
            return [to(subscription.peer, event)]
        said = {"seq": record.seq, "at": record.at, "topic": event.topic}
        try:
            data = write(said | {"event": self._event(record, body)})
        except Unmappable as why:
            data = write(said | {"event": str(why)})
        return [to(subscription.peer, event, [data])]

    def _event(self, record: Record, body: Body | None) -> Any:
        if record.kind != Kind.PUBLISHED:
            found = ((name, getattr(record, name)) for name in _FIELDS)
            return {name: value for name, value in found if value not in ("", 0, 0.0)}
        answer = self._undressed(body)
        return answer.raw if answer.raw is not None else answer.value

    def _undressed(self, body: Body | None) -> Answer:
        codec = self._codecs.get(body.dialect) if body else None
        if codec is None or body is None:
            return Answer()
        try:
            return codec.read_answer(body)
        except Unmappable as why:
            return Answer(str(why))
