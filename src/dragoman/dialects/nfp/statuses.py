"""The broker's half of NFP/Client, outgoing: answers to GET and DELETE.

NorFab's broker forwards a GET to the workers. This broker answers from its own state: for any
client, any job, and after a restart. While a worker is away its job is pending, not failed.
"""

from dragoman.core.effects import JobStatus, PartStatus, RequestKind, SendStatus
from dragoman.dialects.base import BodyCodecs, Send
from dragoman.dialects.nfp import bodies, wire
from dragoman.dialects.nfp.client_jobs import ClientJobs, name_for, renamed, result_content
from dragoman.dialects.nfp.contents import OK, Content
from dragoman.dialects.nfp.faults import status_of
from dragoman.dialects.nfp.peers import Peer, Peers
from dragoman.dialects.nfp.targets import asked_names
from dragoman.dialects.nfp.workers import NfpWorkers
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import FINAL, JobState
from dragoman.model.names import PeerId, WorkerName


class NfpStatuses:
    """Encodes the status of a job for any client."""

    def __init__(
        self, peers: Peers, workers: NfpWorkers, client_jobs: ClientJobs, codecs: BodyCodecs
    ) -> None:
        self.peers = peers
        self.workers = workers
        self.client_jobs = client_jobs
        self.codecs = codecs

    def render(self, effect: SendStatus, now: float) -> list[Send]:
        """Answer a GET or DELETE. A PUT has no answer: NorFab's client would fail its job.

        A synchronous client gets one reply for all parts.
        """
        if effect.asked is RequestKind.INPUT:
            return []
        peer = self.peers.of(effect.client)
        service = self.client_jobs.services.pop((effect.client, effect.job), "")
        if effect.asked is RequestKind.CANCEL:
            return [self._cancelled(peer, effect, service)]
        target = self.client_jobs.take_get(effect.client, effect.job)
        status = effect.status
        if status is None or _is_lost(status):
            return [self._no_result(peer, effect, target, service)]
        parts = self._parts(effect.client, status, target)
        if peer.is_synchronous:
            return [self._summary(peer, status, parts)]
        listed = self._listed(peer, status, target, tuple(name for name, _ in parts if name))
        return [*listed, *(self._part(peer, status, name, part) for name, part in parts)]

    def _answer(
        self, peer: Peer, service: str, job: str, status: bytes, body: bytes, more: Content = ()
    ) -> Send:
        uuid = job.encode()
        reply = wire.NfpReply(
            wire.RESPONSE, service.encode(), uuid, status, body, peer.is_binary, more
        )
        return Send(peer.address, wire.encode(reply))

    def _summary(self, peer: Peer, status: JobStatus, parts: list[tuple[str, PartStatus]]) -> Send:
        """Encode all parts in one reply: one content frame for each worker, if all have ended."""
        is_open = any(part.state not in FINAL for _, part in parts)
        if is_open:
            name, part = next(pair for pair in parts if pair[1].state not in FINAL)
            return self._part(peer, status, name, part)
        results = [self._result(peer, status, name, part) for name, part in parts]
        worst = max(code for code, _ in results)
        body, *more = [frame for _, content in results for frame in content]
        return self._answer(peer, status.service, status.job, worst, body, tuple(more))

    def _no_result(self, peer: Peer, effect: SendStatus, target: str, asked: str) -> Send:
        known = effect.status
        fault = (known.fault if known else None) or effect.fault
        if fault is None:
            fault = Fault(FaultCode.UNKNOWN_JOB, f"this broker does not know job {effect.job}")
        service = known.service if known else asked
        body = bodies.failed(effect.job, target, service, fault)
        return self._answer(peer, service, effect.job, status_of(fault.code, peer.is_binary), body)

    def _parts(
        self, client: PeerId, status: JobStatus, target: str
    ) -> list[tuple[str, PartStatus]]:
        """Pair each requested part with the name under which the client knows its worker."""
        asked = asked_names(target)
        announced = self._announced(client, status, asked)
        parts = status.parts or (PartStatus(WorkerName(""), JobState.QUEUED),)
        named = [(name_for(part.worker, announced), part) for part in parts]
        wanted = [pair for pair in named if pair[0] in asked]
        return wanted or named

    def _announced(
        self, client: PeerId, status: JobStatus, asked: tuple[str, ...]
    ) -> tuple[str, ...]:
        state = self.client_jobs.open.get((client, status.job))
        if state is not None and state.announced:
            return state.announced
        if client == status.client and len(status.parts) == 1:
            # The client uses the announced name, which an earlier broker process may have sent.
            return asked[:1]
        return ()

    def _listed(
        self, peer: Peer, status: JobStatus, target: str, names: tuple[str, ...]
    ) -> list[Send]:
        """Begin the answer to a GET with a 202, as NorFab's broker does. Old clients need it."""
        if not names:
            return []
        body = bodies.dispatched(names, status.job, target, status.service)
        return [self._answer(peer, status.service, status.job, b"202", body)]

    def _part(self, peer: Peer, status: JobStatus, name: str, part: PartStatus) -> Send:
        """Encode the status of one part: its result, or that it is not finished."""
        job, service = status.job, self.workers.service_of(part.worker) or status.service
        if part.state in FINAL:
            code, content = self._result(peer, status, name, part)
            return self._answer(peer, service, job, code, content[0], content[1:])
        if status.is_waiting_for_input and part.state is JobState.RUNNING:
            code = b"300" if peer.is_binary else b"102"
            return self._answer(peer, service, job, code, self._waiting(status, name, service))
        text = "STARTED" if part.state is JobState.RUNNING else "PENDING"
        body = bodies.job_status(name or None, job, service, text)
        return self._answer(peer, service, job, b"300", body)

    def _result(
        self, peer: Peer, status: JobStatus, name: str, part: PartStatus
    ) -> tuple[bytes, Content]:
        """Return status and content of a part that has ended."""
        service = self.workers.service_of(part.worker) or status.service
        fault = part.fault or (None if part.state is JobState.SUCCEEDED else status.fault)
        args = (part.worker, part.body, fault, status.job, service, part.resources)
        code, content = result_content(self.codecs, peer, *args)
        if code != OK and not peer.is_binary:
            return code, content
        owner = bodies.owner(content[0])
        return code, renamed(content, part.worker or owner, name or owner)

    def _waiting(self, status: JobStatus, name: str, service: str) -> bytes:
        state = self.client_jobs.open.get((status.client, status.job))
        asked = bodies.question(state.question) if state and state.question else {}
        return bodies.job_status(name, status.job, service, "WAITING_CLIENT_INPUT", **asked)

    def _cancelled(self, peer: Peer, effect: SendStatus, service: str) -> Send:
        """Encode the outcome of a DELETE."""
        status = effect.status
        if status is None:
            return self._no_result(peer, effect, "all", service)
        code, text = _cancel_outcome(status, effect.fault)
        more = {"command": wire.DELETE, "state": status.state.value}
        body = bodies.job_status(None, status.job, status.service, text, **more)
        return self._answer(peer, status.service, status.job, code, body)


def _cancel_outcome(status: JobStatus, fault: Fault | None) -> tuple[bytes, str]:
    if status.state is not JobState.CANCELLED:
        return (b"300", "CANCELLING") if status.is_cancelling else (b"417", "ALREADY_FINISHED")
    if fault is not None and fault.code is FaultCode.CANCEL_UNCONFIRMED:
        return b"417", "CANCEL_NOT_CONFIRMED"
    return b"200", "CANCELLED"


def _is_lost(status: JobStatus) -> bool:
    """Return whether a job ended without a result of any worker."""
    if status.state not in FINAL or status.fault is None:
        return False
    if len(status.parts) > 1 and any(p.state is JobState.SUCCEEDED for p in status.parts):
        return False
    return not any(p.body is not None or p.seq for p in status.parts)
