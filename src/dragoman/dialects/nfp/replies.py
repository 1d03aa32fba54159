"""The broker's half of NFP/Client, outgoing: how a job goes, told in answers and events.

Rules that NorFab's client depends on: the 202 is the first message of a job and names the workers
exactly; a job is complete when the workers that answered are the ones of the 202; any 4xx or 5xx
fails the whole job; no message has fewer than seven frames.
"""

from collections.abc import Callable
from typing import Final

from dragoman.core.effects import SendReply
from dragoman.core.events import ReplyKind
from dragoman.dialects.base import BodyCodecs, Send
from dragoman.dialects.nfp import bodies, wire
from dragoman.dialects.nfp.body_codec import NAME, write
from dragoman.dialects.nfp.client_jobs import (
    ClientJobs,
    ClientJobState,
    name_for,
    renamed,
    result_body,
)
from dragoman.dialects.nfp.faults import status_of
from dragoman.dialects.nfp.peers import Peer, Peers
from dragoman.dialects.nfp.settings import INVENTORY, MANAGEMENT
from dragoman.dialects.nfp.workers import NfpWorkers
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode

#: Services whose answers are the value itself, not an object by worker name.
_MANAGED: Final = frozenset({MANAGEMENT, INVENTORY})
#: Faults of one part. When one ends a job of several, that part's own answer has told it already.
_OF_ONE_PART: Final = frozenset(
    {
        FaultCode.TASK_FAILED,
        FaultCode.RUN_TIMEOUT,
        FaultCode.WORKER_LOST,
        FaultCode.EXHAUSTED,
        FaultCode.UNMAPPABLE,
        FaultCode.TOO_MANY_HOPS,
    }
)


class NfpReplies:
    """Tells clients how their jobs go."""

    def __init__(
        self, peers: Peers, workers: NfpWorkers, memory: ClientJobs, codecs: BodyCodecs
    ) -> None:
        self.peers = peers
        self.workers = workers
        self.memory = memory
        self.codecs = codecs
        self._kinds: dict[ReplyKind, Callable[[Peer, SendReply, float], list[Send]]] = {
            ReplyKind.QUEUED: self._queued,
            ReplyKind.DISPATCHED: self._dispatched,
            ReplyKind.ACCEPTED: self._accepted,
            ReplyKind.PROGRESS: self._progress,
            ReplyKind.CHUNK: self._chunk,
            ReplyKind.INPUT_ASKED: self._input_asked,
            ReplyKind.PART: self._part,
            ReplyKind.FINAL: self._final,
        }

    def render(self, effect: SendReply, now: float) -> list[Send]:
        """Tell a client how its job goes."""
        if effect.service in _MANAGED:
            return self._managed(self.peers.of(effect.client), effect)
        return self._kinds[effect.kind](self.peers.of(effect.client), effect, now)

    def _managed(self, peer: Peer, effect: SendReply) -> list[Send]:
        """Answer a question to the broker itself: once, when there is an answer."""
        if effect.kind is not ReplyKind.FINAL:
            return []
        said = self._value(effect.body) if effect.fault is None else None
        return managed(peer, effect.service.encode(), effect.job.encode(), said, effect.fault)

    def _send(
        self, peer: Peer, command: str, effect: SendReply, status: bytes, body: bytes
    ) -> Send:
        """Answer in the name of the worker's service, which service `all` is not."""
        service = self.workers.service_of(effect.worker) or effect.service
        uuid = effect.job.encode()
        reply = wire.NfpReply(command, service.encode(), uuid, status, body, peer.is_binary)
        return Send(peer.address, wire.encode(reply))

    def _told(self, effect: SendReply) -> ClientJobState | None:
        return self.memory.told.get((effect.client, effect.job))

    def _queued(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        """Tell only those who want to know: to others the first 202 names the workers for good."""
        if not peer.declared.push:
            return []
        told = self._told(effect) or ClientJobState(effect.service)
        body = bodies.dispatched((), effect.job, told.target, told.service)
        return [self._send(peer, wire.RESPONSE, effect, b"202", body)]

    def _dispatched(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        told = self._told(effect)
        if told is None:
            key = effect.client, effect.job
            told = self.memory.told.remember(key, ClientJobState(effect.service))
        if peer.declared.push or not told.announced:
            told.announced = effect.workers
        return [self._announce(peer, effect, told)]

    def _announce(self, peer: Peer, effect: SendReply, told: ClientJobState) -> Send:
        uuid, service = effect.job.encode(), told.service.encode()
        body = bodies.dispatched(told.announced, effect.job, told.target, told.service)
        reply = wire.NfpReply(wire.RESPONSE, service, uuid, b"202", body, peer.is_binary)
        return Send(peer.address, wire.encode(reply))

    def _accepted(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        body = _own(effect.body)
        if body is None:
            body = bodies.accepted(effect.worker, effect.job, effect.service)
        return [self._send(peer, wire.RESPONSE, effect, b"201", body)]

    def _progress(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        body = _own(effect.body)
        if body is None:
            body = self._event(effect, now, "progress")
        return [self._send(peer, wire.EVENT, effect, b"200", body)]

    def _chunk(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        return [self._send(peer, wire.STREAM, effect, b"200", self._piece(effect.body))]

    def _piece(self, body: Body) -> bytes:
        """Return a piece of a stream; of another dialect, what is inside its dress."""
        if body.dialect == NAME:
            return b"".join(body.parts)
        try:
            answer = self.codecs[body.dialect].read_answer(body)
        except (KeyError, Unmappable):
            return b"".join(body.parts)
        piece = answer.value if answer.raw is None else answer.raw
        if isinstance(piece, bytes):
            return piece
        return piece.encode() if isinstance(piece, str) else write(piece)

    def _input_asked(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        body = _own(effect.body)
        if body is None:
            body = self._event(effect, now, "input_request")
        told = self._told(effect)
        if told is not None:
            told.question = body
        return [self._send(peer, wire.EVENT, effect, b"200", body)]

    def _event(self, effect: SendReply, now: float, event_type: str) -> bytes:
        """Make NorFab's event of what a worker of another dialect said."""
        said = self._value(effect.body)
        is_question = event_type == "input_request"
        asked = {"id": effect.job, "question": said, "default": None, "metadata": {}}
        return bodies.event(
            effect.worker,
            effect.service,
            effect.job,
            said if isinstance(said, str) else event_type,
            bodies.timestamp(now),
            event_type=event_type,
            status="waiting_client_input" if is_question else "running",
            extras={"input_request": asked} if is_question else {"event": said},
        )

    def _value(self, body: Body) -> object:
        """Undress what another dialect's worker said, as far as it can be."""
        codec = self.codecs.get(body.dialect)
        if codec is None:
            return None
        try:
            answer = codec.read_answer(body)
        except Unmappable as why:
            return str(why)
        return answer.value if answer.raw is None else answer.raw

    # --- ends -----------------------------------------------------------------------------------

    def _part(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        told = self._told(effect)
        if told is not None:
            told.answered.add(effect.worker)
        return self._result(peer, effect, told or ClientJobState(effect.service))

    def _final(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        self.workers.assignments.drop_job(effect.job)
        told = self.memory.told.pop((effect.client, effect.job), None)
        if effect.body.parts or (effect.worker and effect.fault is None):
            return self._result(peer, effect, told or ClientJobState(effect.service))
        if effect.fault is None or (not effect.worker and _is_told(effect.fault, told)):
            return []
        return [self._failure(peer, effect, effect.fault, told or ClientJobState(effect.service))]

    def _failure(self, peer: Peer, effect: SendReply, fault: Fault, told: ClientJobState) -> Send:
        body = bodies.failed(effect.job, told.target, told.service, fault)
        status = status_of(fault.code, peer.is_binary)
        return self._send(peer, wire.RESPONSE, effect, status, body)

    def _result(self, peer: Peer, effect: SendReply, told: ClientJobState) -> list[Send]:
        """Answer with a result, or announce it to those who fetch results themselves."""
        job, service = effect.job, effect.service
        told_of = (effect.worker, effect.body, effect.fault, job, service, effect.resources)
        body = result_body(self.codecs, *told_of)
        worker = effect.worker or bodies.owner(body)
        name = worker if peer.declared.push else name_for(worker, told.announced)
        announcement = self.workers.announcements.pop((job, effect.worker), None)
        if announcement is not None and name == worker and not peer.takes_results:
            return [self._send(peer, wire.EVENT, effect, b"200", announcement)]
        sends = []
        if not told.announced and effect.kind is ReplyKind.FINAL:
            # A job that was answered before, or from memory, was never dispatched.
            told.announced = (worker,)
            sends.append(self._announce(peer, effect, told))
        result = renamed(body, worker, name)
        return [*sends, self._send(peer, wire.RESPONSE, effect, b"200", result)]


def managed(
    peer: Peer, service: bytes, uuid: bytes, said: object, fault: Fault | None
) -> list[Send]:
    """Answer a management call twice: old clients read RESPONSE, new ones only MMI."""
    status = b"200" if fault is None else b"400"
    body = bodies.to_json(said if fault is None else bodies.error_object(fault))
    replies = [
        wire.NfpReply(command, service, uuid, status, body, peer.is_binary)
        for command in (wire.RESPONSE, wire.MMI)
    ]
    return [Send(peer.address, wire.encode(reply)) for reply in replies]


def _is_told(fault: Fault, told: ClientJobState | None) -> bool:
    """Tell whether every part of a job of several was answered for itself already."""
    if told is None:
        # After a restart of the broker nobody knows what was told before.
        return fault.code in _OF_ONE_PART
    return bool(told.answered) and told.answered >= set(told.announced)


def _own(body: Body) -> bytes | None:
    """Return what an NFP worker said, to be passed on untouched."""
    return body.parts[0] if body.dialect == NAME and body.parts else None
