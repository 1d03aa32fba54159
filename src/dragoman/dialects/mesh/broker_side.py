"""This broker's end of all its links to other brokers.

Both ends are alike: work that is rendered here is submitted there under the same id, and what is
replied there is received here as a worker's reply.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dragoman.core.effects import (
    Effect,
    RequestKind,
    SendCancel,
    SendInput,
    SendPoll,
    SendReply,
    SendStatus,
    SendWork,
)
from dragoman.core.events import (
    InputReceived,
    JobCancelled,
    JobSubmitted,
    ReplyKind,
    ReplyReceived,
    ResultRequested,
)
from dragoman.dialects.base import MalformedMessage, Send
from dragoman.dialects.mesh import wire
from dragoman.dialects.mesh.neighbour import Neighbour, worker_name
from dragoman.dialects.mesh.sessions import MeshSessions, Received
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import FINAL
from dragoman.model.names import JobId, PeerId, ServiceName, name_of
from dragoman.model.terms import Terms

#: A refusal with one of these is an answer to the client; after others the job goes elsewhere.
_FINAL_REFUSALS: Final = frozenset(
    {FaultCode.CONFLICT, FaultCode.DENIED, FaultCode.TOO_LARGE, FaultCode.BAD_REQUEST}
)
#: What a client of this broker is told, as the worker's reply there. Others are not passed on.
_KINDS: Final = {
    ReplyKind.QUEUED: ReplyKind.ACCEPTED,
    ReplyKind.DISPATCHED: ReplyKind.ACCEPTED,
    ReplyKind.PROGRESS: ReplyKind.PROGRESS,
    ReplyKind.CHUNK: ReplyKind.CHUNK,
    ReplyKind.INPUT_ASKED: ReplyKind.INPUT_ASKED,
    ReplyKind.FINAL: ReplyKind.FINAL,
}
_REPLIES: Final = {kind.value: kind for kind in _KINDS.values()}
#: The share of the time for a cancel that the next broker has: it must answer before ours ends.
_CANCEL_SHARE: Final = 0.8


class MeshBrokerSide(MeshSessions):
    """One broker among others."""

    def _handle(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        return _RECEIVERS[type(got.message)](self, source, got, now)

    # --- messages of a neighbour --------------------------------------------------------------

    def _nothing(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        """Return nothing: the message is a sign of life only."""
        return []

    def _offered(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        return list(source.take_offers(got.message.offers, self.me))

    def _held(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        """Ask the core about the jobs that a neighbour holds; see `_checked`."""
        jobs = [JobId(job) for job in got.message.jobs]
        source.checking.update(jobs)
        return [ResultRequested(job, source.client) for job in jobs]

    def _work(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        work: wire.Work = got.message
        service, path = ServiceName(work.service), work.terms.path
        if self.me in path or not source.terms.gives(service) or self._view.is_own(service):
            reason = "it has been there" if self.me in path else f"it does not offer {service}"
            return [self._refusal(source, JobId(work.job), f"{self.me} refused the job: {reason}")]
        terms = wire.read_terms(work.terms)
        return [
            JobSubmitted(
                JobId(work.job), source.client, service, got.body, terms=terms, task=work.task
            )
        ]

    def _refusal(self, to: Neighbour, job: JobId, message: str) -> Send:
        fault = FaultCode.HANDED_BACK.value
        return self._to(to, wire.Reply(job, ReplyKind.FINAL.value, fault, message))

    def _cancel(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        return [JobCancelled(JobId(got.message.job), source.client)]

    def _input(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        return [InputReceived(JobId(got.message.job), source.client, got.body)]

    def _poll(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        poll: wire.Poll = got.message
        source.polled[JobId(poll.job)] = poll.attempt
        return [ResultRequested(JobId(poll.job), source.client)]

    def _reply(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        reply: wire.Reply = got.message
        job, kind = JobId(reply.job), _REPLIES.get(reply.kind)
        if kind is None:
            raise MalformedMessage(f"unknown kind of reply {reply.kind[:40]!r}")
        worker, fault = source.reported(job, now), _read_fault(reply)
        attempt = reply.attempt or None
        replied = ReplyReceived(worker, job, kind, got.body, fault, attempt)
        is_over = kind is ReplyKind.FINAL and (attempt is None or source.was_sent(job, attempt))
        return [replied, *(source.ended(job) if is_over else ())]

    def _asked(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        reason, words = self._view.why(got.message.job)
        return [self._to(source, wire.Told(got.message.job, reason, words))]

    def _told(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        answer: wire.Told = got.message
        self.told(source.name, answer.job, answer.reason, answer.words)
        return []

    def ask(self, broker: str, job: str) -> Send | None:
        """Return the question why a job is in its state over there; None: the link is broken."""
        found = self.neighbours.get(broker)
        return self._to(found, wire.Ask(job)) if found is not None and found.session else None

    # --- effects of the core ------------------------------------------------------------------

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Encode one effect for a neighbour."""
        handler = _RENDERERS.get(type(effect))
        return handler(self, effect, now) if handler is not None else []

    def _holder(self, worker: PeerId) -> Neighbour:
        return self._neighbour(name_of(worker).partition("/")[0])

    def _send_work(self, effect: SendWork, now: float) -> list[Send]:
        to, terms = self._holder(effect.worker), effect.terms or Terms()
        if not (effect.job and all(map(wire.is_word, (effect.job, effect.task)))):
            raise Unmappable("a job id or task with line breaks cannot cross to another broker")
        left = None if effect.run_until is None else max(0.0, effect.run_until - now)
        origin = terms.origin or f"client {effect.client} of broker {self.me}"
        grace = terms.cancel_grace * _CANCEL_SHARE
        crossing = replace(
            terms,
            origin=origin if wire.is_word(origin) else f"broker {self.me}",
            cancel_grace=grace,
        )
        written = wire.write_terms(crossing, left, (*terms.path, self.me))
        to.sent(effect.job, effect.worker, effect.attempt, now)
        return [self._to(to, wire.Work(effect.job, effect.service, effect.task, written),
                         effect.body)]  # fmt: skip

    def _send_input(self, effect: SendInput, now: float) -> list[Send]:
        return [self._to(self._holder(effect.worker), wire.Input(effect.job), effect.body)]

    def _send_cancel(self, effect: SendCancel, now: float) -> list[Send]:
        return [self._to(self._holder(effect.worker), wire.Cancel(effect.job))]

    def _send_poll(self, effect: SendPoll, now: float) -> list[Send]:
        to = self._holder(effect.worker)
        if not to.was_sent(effect.job, effect.attempt):
            # The work still waits for the disk. A poll would overtake it, and the answer that
            # there is no such job would give the job to another worker as well.
            return []
        return [self._to(to, wire.Poll(effect.job, effect.attempt))]

    def _send_reply(self, effect: SendReply, now: float) -> list[Send]:
        kind = _KINDS.get(effect.kind)
        if kind is None:
            return []
        fault = effect.fault
        if kind is ReplyKind.FINAL and effect.state is None and fault is not None:
            # No job exists here, so another worker may run it.
            fault = fault if fault.code in _FINAL_REFUSALS else _unrun(fault.message)
        return [self._answer(self._holder(effect.client), effect.job, kind, effect.body, fault)]

    def _send_status(self, effect: SendStatus, now: float) -> list[Send]:
        """Answer a poll or a cancel, or tell a neighbour to stop a job that it should not have."""
        to, status = self._holder(effect.client), effect.status
        if effect.asked is RequestKind.RESULT and effect.job in to.checking:
            to.checking.discard(effect.job)
            return self._checked(to, effect)
        if status is None and effect.asked is not RequestKind.INPUT:
            fault = effect.fault if effect.fault and effect.fault.code in _FINAL_REFUSALS else None
            fault = fault or _unrun(f"{self.me} does not have the job")
            attempt = to.polled.pop(effect.job, 0)
            return [self._answer(to, effect.job, ReplyKind.FINAL, EMPTY, fault, attempt)]
        to.polled.pop(effect.job, None)
        if status is None or status.state not in FINAL or effect.asked is not RequestKind.RESULT:
            return []
        body = (status.parts[0].body if status.parts else None) or EMPTY
        return [self._answer(to, effect.job, ReplyKind.FINAL, body, status.fault)]

    def _checked(self, to: Neighbour, effect: SendStatus) -> list[Send]:
        """Stop a job over there that this broker has ended or given to another worker."""
        parts = effect.status.parts if effect.status is not None else ()
        mine = worker_name(to.name, "")
        if any(p.worker.startswith(mine) and p.state not in FINAL for p in parts):
            return []
        return [self._to(to, wire.Cancel(effect.job))]

    def _answer(
        self,
        to: Neighbour,
        job: JobId,
        kind: ReplyKind,
        body: Body,
        fault: Fault | None,
        attempt: int = 0,
    ) -> Send:
        code, message = (fault.code.value, fault.message) if fault is not None else ("", "")
        return self._to(to, wire.Reply(job, kind.value, code, message, attempt), body)


def _unrun(message: str) -> Fault:
    return Fault(FaultCode.HANDED_BACK, message)


def _read_fault(reply: wire.Reply) -> Fault | None:
    if not reply.fault:
        return None
    known = reply.fault in FaultCode._value2member_map_
    return Fault(FaultCode(reply.fault) if known else FaultCode.TASK_FAILED, reply.message)


_RECEIVERS: Final[
    dict[type, Callable[[MeshBrokerSide, Neighbour, wire.MeshEnvelope, float], Received]]
] = {
    wire.Beat: MeshBrokerSide._nothing,
    wire.Offers: MeshBrokerSide._offered,
    wire.Holds: MeshBrokerSide._held,
    wire.Work: MeshBrokerSide._work,
    wire.Cancel: MeshBrokerSide._cancel,
    wire.Input: MeshBrokerSide._input,
    wire.Poll: MeshBrokerSide._poll,
    wire.Reply: MeshBrokerSide._reply,
    wire.Ask: MeshBrokerSide._asked,
    wire.Told: MeshBrokerSide._told,
}
_RENDERERS: Final[dict[type, Callable[[MeshBrokerSide, Any, float], list[Send]]]] = {
    SendWork: MeshBrokerSide._send_work,
    SendInput: MeshBrokerSide._send_input,
    SendCancel: MeshBrokerSide._send_cancel,
    SendPoll: MeshBrokerSide._send_poll,
    SendReply: MeshBrokerSide._send_reply,
    SendStatus: MeshBrokerSide._send_status,
}
