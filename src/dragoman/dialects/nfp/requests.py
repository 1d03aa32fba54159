"""The broker's half of NFP/Client, incoming: requests become events, or are refused with a reason.

A body is checked before the job is submitted: NorFab's worker stops on a bad one.
"""

from collections.abc import Callable

from dragoman.core.events import (
    Event,
    InputReceived,
    JobCancelled,
    JobSubmitted,
    Noted,
    ResultRequested,
)
from dragoman.dialects.base import MalformedMessage, Send
from dragoman.dialects.nfp import bodies, wire
from dragoman.dialects.nfp.body_codec import NAME
from dragoman.dialects.nfp.client_jobs import ClientJobs, ClientJobState
from dragoman.dialects.nfp.faults import status_of
from dragoman.dialects.nfp.peers import Bounded, Peer, read_name, read_service
from dragoman.dialects.nfp.settings import NfpSettings
from dragoman.dialects.nfp.targets import only_name, read_target
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job_options import apply_options
from dragoman.model.names import JobId, ServiceName, WorkerName
from dragoman.model.record import Kind
from dragoman.model.terms import Terms

Received = list[Event | Send]


class NfpRequests:
    """Turns requests of clients into events."""

    def __init__(self, client_jobs: ClientJobs, settings: NfpSettings) -> None:
        self.client_jobs = client_jobs
        self.settings = settings
        self._terms: Bounded[tuple[float, int], Terms] = Bounded(1024)
        self._commands: dict[str, Callable[[Peer, JobId, str, wire.NfpRequest], Received]] = {
            wire.POST: self._post,
            wire.GET: self._get,
            wire.DELETE: self._delete,
            wire.PUT: self._put,
        }

    def take(self, peer: Peer, message: wire.NfpRequest) -> Received:
        """Decode a POST, GET, DELETE or PUT."""
        try:
            job = JobId(read_name(message.uuid, "job id", self.settings.max_name))
            service = read_service(message.service, self.settings.max_name)
            return self._commands[message.command](peer, job, service, message)
        except (MalformedMessage, ValueError) as error:
            return refuse(peer, message, Fault(FaultCode.BAD_REQUEST, str(error)))

    def _post(self, peer: Peer, job: JobId, service: str, message: wire.NfpRequest) -> Received:
        content = (message.body, *message.more)
        size = sum(map(len, content))
        if size > self.settings.max_body:
            text = f"the body has {size} bytes; the limit is {self.settings.max_body}"
            return refuse(peer, message, Fault(FaultCode.TOO_LARGE, text))
        target_text = message.target.decode()
        target = read_target(target_text, message.is_binary)
        head = self._head(message)
        if peer.is_synchronous:
            self.client_jobs.add_post(peer.id, job)
        if (peer.id, job) not in self.client_jobs.open:
            self.client_jobs.open.remember((peer.id, job), ClientJobState(service, target_text))
        return [
            JobSubmitted(
                job,
                peer.id,
                ServiceName(service),
                Body(NAME, content),
                target,
                self._terms_of(head),
                head.task,
                head.key,
            )
        ]

    def _head(self, message: wire.NfpRequest) -> bodies.PostHead:
        """Decode the head of a body. In the text a body is opaque; for NorFab it must be a call."""
        try:
            return bodies.read_post(message.body)
        except ValueError:
            if not message.is_binary:
                raise
            return bodies.PostHead("")

    def _terms_of(self, head: bodies.PostHead) -> Terms:
        timeout = head.timeout if head.timeout and head.timeout > 0 else self.settings.timeout
        terms = self._terms.get((timeout, head.priority))
        if terms is None:
            terms = Terms(patience=self.settings.patience, timeout=timeout, priority=head.priority)
            self._terms.remember((timeout, head.priority), terms)
        return apply_options(terms, head.options)

    def _get(self, peer: Peer, job: JobId, service: str, message: wire.NfpRequest) -> Received:
        self.client_jobs.add_get(peer.id, job, message.target.decode())
        self.client_jobs.services.remember((peer.id, job), service)
        return [ResultRequested(job, peer.id)]

    def _delete(self, peer: Peer, job: JobId, service: str, message: wire.NfpRequest) -> Received:
        self.client_jobs.services.remember((peer.id, job), service)
        return [JobCancelled(job, peer.id)]

    def _put(self, peer: Peer, job: JobId, service: str, message: wire.NfpRequest) -> Received:
        """Decode input. It goes to the job's worker: `any` could select another one."""
        worker = only_name(message.target.decode())
        state = self.client_jobs.open.get((peer.id, job))
        # The only worker of a job may have changed after the announcement.
        is_only = state is not None and len(state.announced) == 1
        name = WorkerName(worker) if worker and not is_only else None
        given = InputReceived(job, peer.id, Body(NAME, (message.body,)), name)
        if not peer.is_synchronous:
            return [given]
        # A synchronous client needs a reply to its PUT, too: the status of the job.
        return [given, *self._get(peer, job, service, message)]


def refuse(peer: Peer, message: wire.NfpRequest | wire.UnknownCommand, fault: Fault) -> Received:
    """Answer a refused request, in seven frames, and record the refusal."""
    uuid, target, service = (
        frame.decode(errors="backslashreplace")
        for frame in (message.uuid, message.target, message.service)
    )
    body = bodies.failed(uuid, target, service, fault)
    status = status_of(fault.code, peer.is_binary)
    reply = wire.NfpReply(
        wire.RESPONSE, message.service, message.uuid, status, body, peer.is_binary
    )
    return [
        Send(peer.address, wire.encode(reply)),
        Noted(
            Kind.REJECTED, peer.id, f"{message.command!s} refused: {fault.message}", dialect=NAME
        ),
    ]
