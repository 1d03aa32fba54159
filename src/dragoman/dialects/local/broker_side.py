"""The broker's end of the local link, on which built-in services join, work and answer."""

from collections.abc import Sequence

from dragoman.core.effects import Effect, SendCancel, SendInput, SendReply, SendWork
from dragoman.core.events import Event, PeerLeft, ReplyKind, ReplyReceived, WorkerJoined
from dragoman.dialects.base import (
    Address,
    BodyCodecs,
    Frames,
    Send,
    convert_answer,
    convert_call,
)
from dragoman.dialects.local import wire
from dragoman.dialects.local.body_codec import NAME, LocalBodyCodec
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, ServiceName, WorkerName, name_of, peer_id, raw_of, text_of


class LocalBrokerSide:
    """Serves the built-in services, by the address of their memory peer."""

    def __init__(self, codecs: BodyCodecs, link: str = NAME) -> None:
        self.link = link
        self._codecs = codecs
        self._codec = LocalBodyCodec()

    def receive(self, address: Address, frames: Frames, now: float) -> Sequence[Event]:
        """Decode one message of a built-in service."""
        message = wire.decode(frames)
        worker = peer_id(self.link, text_of(address))
        if isinstance(message, wire.LocalJoin):
            return [
                WorkerJoined(
                    worker,
                    WorkerName(text_of(address)),
                    tuple(map(ServiceName, message.services)),
                    credit=message.credit,
                    credit_returns=True,
                    can_cancel=True,
                    # The service started with this process, so jobs of an earlier one run again.
                    holds=frozenset(),
                    dialect=NAME,
                    is_builtin=True,
                )
            ]
        if isinstance(message, wire.LocalReply):
            body = Body(NAME, (message.body,))
            kind = ReplyKind(message.kind)
            fault = self._fault(body) if kind is ReplyKind.FINAL else None
            return [ReplyReceived(worker, JobId(message.job), kind, body, fault, message.attempt)]
        return [PeerLeft(worker, "the service ended")]

    def _fault(self, body: Body) -> Fault | None:
        try:
            return self._codec.read_answer(body).fault
        except Unmappable as error:
            return Fault(FaultCode.TASK_FAILED, str(error))

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Encode work, input, cancels and the ends of the broker's own jobs."""
        if isinstance(effect, SendWork):
            body = convert_call(self._codecs, effect.body, NAME)
            work = wire.LocalWork(effect.job, effect.attempt, effect.client, body.parts[0])
            return [Send(raw_of(name_of(effect.worker)), wire.encode(work))]
        if isinstance(effect, SendInput):
            body = convert_answer(self._codecs, effect.body, NAME)
            message = wire.LocalInput(effect.job, body.parts[0])
            return [Send(raw_of(name_of(effect.worker)), wire.encode(message))]
        if isinstance(effect, SendReply):
            return self._job_ended(effect)
        if isinstance(effect, SendCancel):
            return [Send(raw_of(name_of(effect.worker)), wire.encode(wire.LocalCancel(effect.job)))]
        return []

    def _job_ended(self, effect: SendReply) -> list[Send]:
        """Report the end of a job that the broker itself submitted; drop other replies."""
        if effect.kind is not ReplyKind.FINAL:
            return []
        body, fault = effect.body, effect.fault
        answer = convert_answer(self._codecs, body, NAME).parts[0] if body.parts else b""
        message = wire.LocalJobEnded(
            effect.job, answer, fault.code if fault else "", fault.message if fault else ""
        )
        return [Send(raw_of(name_of(effect.client)), wire.encode(message))]

    def advance(self, now: float) -> Sequence[Event | Send]:
        """Return nothing: this side has no timers."""
        return []

    def next_deadline(self) -> float | None:
        """Return None: this side has no timers."""
        return None
