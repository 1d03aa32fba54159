"""The broker's half of NFP/Client, outgoing: answers and events about a job.

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
from dragoman.dialects.nfp.body_codec import NAME, result_object, write
from dragoman.dialects.nfp.client_jobs import (
    ClientJobs,
    ClientJobState,
    name_for,
    renamed,
    result_content,
)
from dragoman.dialects.nfp.contents import OK, Content
from dragoman.dialects.nfp.faults import status_of
from dragoman.dialects.nfp.peers import Peer, Peers
from dragoman.dialects.nfp.settings import INVENTORY, MANAGEMENT
from dragoman.dialects.nfp.workers import NfpWorkers
from dragoman.model.body import Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode

#: Services whose answer is the value itself, not an object by worker name.
_MANAGED: Final = frozenset({MANAGEMENT, INVENTORY})
#: Faults of one part. If one ends a job with several parts, its part's answer was sent already.
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
    """Encodes replies to clients about their jobs."""

    def __init__(
        self, peers: Peers, workers: NfpWorkers, client_jobs: ClientJobs, codecs: BodyCodecs
    ) -> None:
        self.peers = peers
        self.workers = workers
        self.client_jobs = client_jobs
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
        """Encode one reply."""
        peer = self.peers.of(effect.client)
        if effect.service in _MANAGED:
            return self._managed(peer, effect)
        if peer.is_synchronous:
            return self._reply_to_post(peer, effect)
        return self._kinds[effect.kind](peer, effect, now)

    def _reply_to_post(self, peer: Peer, effect: SendReply) -> list[Send]:
        """Send a synchronous client the one reply to its POST. It fetches the rest with GET."""
        key = effect.client, effect.job
        state = self.client_jobs.open.get(key) or ClientJobState(effect.service)
        if effect.kind is ReplyKind.FINAL:
            self._forget(effect)
        if not self.client_jobs.take_post(*key):
            return []
        is_refused = effect.kind is ReplyKind.FINAL and not effect.worker
        if is_refused and effect.fault is not None:
            return [self._failure(peer, effect, effect.fault, state)]
        state.announced = effect.workers
        return [self._announce(peer, effect, state)]

    def _forget(self, effect: SendReply) -> ClientJobState | None:
        """Forget a job that has ended; return what its client was told."""
        self.workers.assignments.drop_job(effect.job)
        return self.client_jobs.open.pop((effect.client, effect.job), None)

    def _managed(self, peer: Peer, effect: SendReply) -> list[Send]:
        """Answer a management call: once, when the job ends."""
        if effect.kind is not ReplyKind.FINAL:
            return []
        result = self._value(effect.body) if effect.fault is None else None
        return managed(peer, effect.service.encode(), effect.job.encode(), result, effect.fault)

    def _send(
        self,
        peer: Peer,
        command: str,
        effect: SendReply,
        status: bytes,
        body: bytes,
        more: Content = (),
    ) -> Send:
        """Send a reply with the worker's service, which differs from the service `all`."""
        service = self.workers.service_of(effect.worker) or effect.service
        frames = wire.reply_frames(
            command,
            service.encode(),
            effect.job.encode(),
            status,
            body,
            peer.is_binary,
            more,
        )
        return Send(peer.address, frames)

    def _state(self, effect: SendReply) -> ClientJobState | None:
        return self.client_jobs.open.get((effect.client, effect.job))

    def _queued(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        """Send a 202 only to peers that declared `push`: for others the first 202 is final."""
        if not peer.declared.push:
            return []
        state = self._state(effect) or ClientJobState(effect.service)
        body = bodies.dispatched((), effect.job, state.target, state.service)
        return [self._send(peer, wire.RESPONSE, effect, b"202", body)]

    def _dispatched(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        state = self._state(effect)
        if state is None:
            key = effect.client, effect.job
            state = self.client_jobs.open.remember(key, ClientJobState(effect.service))
        if peer.declared.push or not state.announced:
            state.announced = effect.workers
        return [self._announce(peer, effect, state)]

    def _announce(self, peer: Peer, effect: SendReply, state: ClientJobState) -> Send:
        uuid, service = effect.job.encode(), state.service.encode()
        body = bodies.dispatched(state.announced, effect.job, state.target, state.service)
        frames = wire.reply_frames(wire.RESPONSE, service, uuid, b"202", body, peer.is_binary)
        return Send(peer.address, frames)

    def _accepted(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        if peer.is_binary:
            return []  # The text has no 201.
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
        """Return a piece of a stream, decoded if it is of another dialect."""
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
        state = self._state(effect)
        if state is not None:
            state.question = body
        return [self._send(peer, wire.EVENT, effect, b"200", body)]

    def _event(self, effect: SendReply, now: float, event_type: str) -> bytes:
        """Make NorFab's event from a report of another dialect."""
        content = self._value(effect.body)
        is_question = event_type == "input_request"
        asked = {"id": effect.job, "question": content, "default": None, "metadata": {}}
        return bodies.event(
            effect.worker,
            effect.service,
            effect.job,
            content if isinstance(content, str) else event_type,
            bodies.timestamp(now),
            event_type=event_type,
            status="waiting_client_input" if is_question else "running",
            extras={"input_request": asked} if is_question else {"event": content},
        )

    def _value(self, body: Body) -> object:
        """Decode a body of another dialect. If that fails, return the reason."""
        codec = self.codecs.get(body.dialect)
        if codec is None:
            return None
        try:
            answer = codec.read_answer(body)
        except Unmappable as error:
            return str(error)
        return answer.value if answer.raw is None else answer.raw

    # --- ends -----------------------------------------------------------------------------------

    def _part(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        state = self._state(effect)
        if state is not None:
            state.answered |= {effect.worker}
        return self._result(peer, effect, state or ClientJobState(effect.service))

    def _final(self, peer: Peer, effect: SendReply, now: float) -> list[Send]:
        state = self._forget(effect)
        if effect.body.parts or (effect.worker and effect.fault is None):
            return self._result(peer, effect, state or ClientJobState(effect.service))
        if effect.fault is None or (not effect.worker and _is_answered(effect.fault, state)):
            return []
        return [self._failure(peer, effect, effect.fault, state or ClientJobState(effect.service))]

    def _failure(self, peer: Peer, effect: SendReply, fault: Fault, state: ClientJobState) -> Send:
        body = bodies.failed(effect.job, state.target, state.service, fault)
        status = status_of(fault.code, peer.is_binary)
        return self._send(peer, wire.RESPONSE, effect, status, body)

    def _result(self, peer: Peer, effect: SendReply, state: ClientJobState) -> list[Send]:
        """Send a result, or announce it to a client that fetches results with GET."""
        job, service = effect.job, effect.service
        args = (effect.worker, effect.body, effect.fault, job, service, effect.resources)
        status, content = result_content(self.codecs, peer, *args)
        if status != OK and peer.is_ours and effect.fault is not None:
            return [self._own_failure(peer, effect, effect.fault, state)]
        worker = effect.worker or bodies.owner(content[0])
        name = worker if peer.declared.push else name_for(worker, state.announced)
        announcement = self.workers.announcements.pop((job, effect.worker), None)
        if announcement is not None and name == worker and not peer.takes_results:
            return [self._send(peer, wire.EVENT, effect, b"200", announcement)]
        sends = []
        if not state.announced and effect.kind is ReplyKind.FINAL:
            # A repeated or memoised answer was never dispatched.
            state.announced = (worker,)
            sends.append(self._announce(peer, effect, state))
        content = renamed(content, worker, name) if status == OK or peer.is_binary else content
        result = self._send(peer, wire.RESPONSE, effect, status, content[0], content[1:])
        return [*sends, result]

    def _own_failure(
        self, peer: Peer, effect: SendReply, fault: Fault, state: ClientJobState
    ) -> Send:
        """Encode a worker's failing status for our SDK: any 4xx would end all parts of the job."""
        if effect.kind is ReplyKind.FINAL:
            return self._failure(peer, effect, fault, state)
        answer = Answer(fault=fault, resources=effect.resources)
        result = result_object(answer, job=effect.job, service=effect.service)
        return self._send(peer, wire.RESPONSE, effect, OK, write({effect.worker: result}))


def managed(
    peer: Peer, service: bytes, uuid: bytes, result: object, fault: Fault | None
) -> list[Send]:
    """Encode the answer to a management call twice: old clients read RESPONSE, new ones MMI.

    A synchronous client gets the first one only.
    """
    status = b"200" if fault is None else b"400"
    body = bodies.to_json(result if fault is None else bodies.error_object(fault))
    replies = [
        wire.NfpReply(command, service, uuid, status, body, peer.is_binary)
        for command in ((wire.RESPONSE,) if peer.is_synchronous else (wire.RESPONSE, wire.MMI))
    ]
    return [Send(peer.address, wire.encode(reply)) for reply in replies]


def _is_answered(fault: Fault, state: ClientJobState | None) -> bool:
    """Return whether all parts of a job with several parts were answered already."""
    if state is None:
        # After a restart the broker does not know which answers it sent.
        return fault.code in _OF_ONE_PART
    return bool(state.answered) and state.answered >= set(state.announced)


def _own(body: Body) -> bytes | None:
    """Return the body of an NFP worker, to be forwarded unchanged."""
    return body.parts[0] if body.dialect == NAME and body.parts else None
