"""The broker's half of NFP/Worker: reports become events, effects become tasks.

NorFab's worker announces a result with an event and sends it when polled. So the broker polls at
once, and holds the announcement back until the result is recorded. A client that follows the
announcement then finds the result. Workers of the text, and our own, push their results.
"""

from collections.abc import Callable
from typing import Final

from dragoman.core.effects import SendCancel, SendInput, SendPoll, SendWork
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    Event,
    Noted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.dialects.base import BodyCodecs, MalformedMessage, Send, convert_answer, convert_call
from dragoman.dialects.nfp import bodies, wire
from dragoman.dialects.nfp.body_codec import NAME, NfpBodyCodec, status_fault
from dragoman.dialects.nfp.contents import OK, store_answer
from dragoman.dialects.nfp.peers import Bounded, NfpWorker, Peer, Peers, read_name, read_service
from dragoman.dialects.nfp.polling import Assignment, Assignments
from dragoman.dialects.nfp.settings import RESERVED, NfpSettings
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName, link_of, name_of
from dragoman.model.record import Kind
from dragoman.model.target import resources_of

Received = list[Event | Send]

_CODEC: Final = NfpBodyCodec()
_KINDS: Final = {
    "input_request": ReplyKind.INPUT_ASKED,
    "result_ready": ReplyKind.FINAL,
}


class NfpWorkers:
    """All workers of a link and the jobs they hold."""

    def __init__(self, peers: Peers, codecs: BodyCodecs, settings: NfpSettings) -> None:
        self.peers = peers
        self.codecs = codecs
        self.settings = settings
        self.workers: dict[PeerId, NfpWorker] = {}
        self.by_name: dict[WorkerName, NfpWorker] = {}
        self.assignments = Assignments(settings.poll_every, settings.remembered_jobs)
        #: Announcements whose result is with the core; `replies` sends them to the client.
        self.announcements: Bounded[tuple[JobId, WorkerName], bytes] = Bounded(4096)
        #: Results fetched by a poll before their announcement, which is then dropped.
        self._overtaken: Bounded[tuple[JobId, WorkerName], bool] = Bounded(1024)
        #: Jobs that were sent to a worker, ended or not.
        self._given: Bounded[tuple[JobId, PeerId], bool] = Bounded(settings.remembered_jobs)
        self._reports: dict[str, Callable[[NfpWorker, JobId, wire.NfpReport, float], Received]] = {
            wire.RESPONSE: self._response,
            wire.EVENT: self._event,
            wire.STREAM: self._stream,
        }
        self._statuses: dict[
            bytes, Callable[[NfpWorker, JobId, wire.NfpReport, float], Received]
        ] = {
            OK: self._done,
            b"201": self._accepted,
            b"102": self._running,
            b"300": self._running,
            b"404": self._unknown_job,
            b"417": self._failed,
            b"400": self._failed,
            b"408": self._failed,
            b"500": self._failed,
        }

    # --- presence -------------------------------------------------------------------------------

    def ready(self, peer: Peer, message: wire.NfpReady, now: float) -> Received:
        """Register a worker, or update its registration."""
        try:
            service = read_service(message.service, self.settings.max_name)
        except MalformedMessage as error:
            return self._refuse(peer, message.service, str(error))
        has_name = peer.has_text_name or peer.has_made_up_identity
        if not has_name or len(peer.address) > self.settings.max_name:
            return self._refuse(
                peer,
                message.service,
                "a worker's identity must be printable text of bounded length",
            )
        if service in RESERVED:
            return self._refuse(peer, message.service, f"the service name {service!r} is reserved")
        if peer.is_binary and peer.id in self.workers:
            # NorFab's workers come back with READY on a new socket; the text forbids a second one.
            return self._expel(self.workers[peer.id], "a second READY")
        worker = NfpWorker(peer, message.service, now)
        if (peer.declared.credit or 0) <= 0:
            worker.credit = min(self.settings.first_credit, self.settings.worker_credit)
        self.workers[peer.id] = self.by_name[worker.name] = worker
        # NFP does not answer READY. A KEEPALIVE at once tells SDK workers that they are registered.
        confirmation = self.beat(peer.id) if peer.is_ours else []
        return [self._joined(worker), *confirmation]

    def _joined(self, worker: NfpWorker) -> WorkerJoined:
        declared, settings = worker.peer.declared, self.settings
        holds, declared.holds = declared.holds, None
        return WorkerJoined(
            worker.peer.id,
            worker.name,
            (worker.service,),
            credit=declared.credit if worker.credit is None else worker.credit,
            credit_returns=True,
            beat_every=settings.beat_every,
            missed_allowed=settings.missed_allowed,
            labels=declared.labels,
            resources=tuple(declared.resources),
            can_cancel=declared.can_cancel,
            holds=None if holds is None else frozenset(map(JobId, holds)),
            dialect=NAME,
        )

    def heard(self, peer: Peer, now: float) -> Received:
        """Note that a peer sent something, if it is a registered worker."""
        worker = self.workers.get(peer.id)
        if worker is None:
            return []
        worker.heard_at = now
        return [BeatReceived(peer.id)]

    def keepalive(self, peer: Peer, message: wire.KeepAlive, now: float) -> Received:
        """Take a heartbeat. An unregistered worker is told to register."""
        worker = self.workers.get(peer.id)
        if worker is None:
            return self._unknown(peer, message.service, wire.KEEPALIVE)
        worker.heard_at = now
        return [BeatReceived(peer.id)]

    def disconnect(self, peer: Peer, message: wire.NfpDisconnect, now: float) -> Received:
        """Unregister a worker. NorFab's workers return at once, with their jobs still running."""
        worker = self.workers.pop(peer.id, None)
        if worker is None:
            return self._stray(peer, wire.DISCONNECT) if not peer.has_text_name else []
        self.by_name.pop(worker.name, None)
        if bodies.is_clean(message.body):
            return [PeerLeft(peer.id, "stopped")]
        return [PeerLeft(peer.id, "disconnected", grace=self.settings.hold)]

    def dismiss(self, id: PeerId, reason: str = "") -> list[Send]:
        """Tell a worker to register again; an SDK worker learns the reason, too."""
        worker = self.workers.pop(id, None)
        if worker is not None:
            self.by_name.pop(worker.name, None)
        service = worker.service_frame if worker else b""
        return [self._disconnect(self.peers.of(id), service, reason)]

    def beat(self, id: PeerId) -> list[Send]:
        """Send a heartbeat to a worker."""
        worker = self.workers.get(id)
        if worker is None:
            return []
        worker.beats_sent += 1
        peer = worker.peer
        message = wire.KeepAlive(wire.BROKER, worker.service_frame, peer.is_binary)
        return [Send(peer.address, wire.encode(message))]

    def _disconnect(self, peer: Peer, service: bytes, reason: str) -> Send:
        """Encode a DISCONNECT. The text has a body frame, NorFab has none."""
        body = reason.encode() if peer.is_binary else None
        if reason and peer.declared.agent == "dragoman":
            body = bodies.to_json({"reason": reason})
        message = wire.NfpDisconnect(wire.BROKER, service, body, peer.is_binary)
        return Send(peer.address, wire.encode(message))

    def _refuse(self, peer: Peer, service: bytes, error: str) -> Received:
        refusal = self._disconnect(peer, service, error)
        return [refusal, self._noted(peer, f"READY refused: {error}")]

    def _expel(self, worker: NfpWorker, error: str) -> Received:
        """Disconnect a worker that broke the text's rules. It may register again."""
        left = PeerLeft(worker.peer.id, error, grace=self.settings.hold)
        return [*self.dismiss(worker.peer.id, error), left, self._noted(worker.peer, error)]

    def _unknown(self, peer: Peer, service: bytes, command: str) -> Received:
        if not peer.has_text_name and not peer.has_made_up_identity:
            return self._stray(peer, command)
        answer: Received = [self._disconnect(peer, service, "not registered; send READY")]
        if command != wire.KEEPALIVE:
            answer.append(self._noted(peer, f"{command} from a worker that is not registered"))
        return answer

    def _stray(self, peer: Peer, command: str) -> Received:
        """Drop a message of a reconnected worker's old socket, which has a random identity."""
        return [self._noted(peer, f"{command} from an identity that is not a worker")]

    def _noted(self, peer: Peer, detail: str) -> Noted:
        return Noted(Kind.REJECTED, peer.id, detail, dialect=NAME)

    # --- reports --------------------------------------------------------------------------------

    def report(self, peer: Peer, message: wire.NfpReport, now: float) -> Received:
        """Decode a RESPONSE, EVENT or STREAM."""
        worker = self.workers.get(peer.id)
        if worker is None:
            return self._unknown(peer, message.service, message.command)
        job = JobId(read_name(message.uuid, "job id", self.settings.max_name))
        worker.heard_at = now
        found = self._reports[message.command](worker, job, message, now)
        if message.command != wire.RESPONSE:
            return found
        if peer.is_binary and (job, peer.id) not in self._given:
            return [*found, *self._expel(worker, f"RESPONSE for job {job}, which it never got")]
        return [*found, *self._more_credit(worker, message.status[:3])]

    def _more_credit(self, worker: NfpWorker, status: bytes) -> Received:
        """Let a worker hold one job more for each job that it confirms or answers."""
        has_answered = status not in (b"300", b"102", b"404")
        if worker.credit is None or worker.credit >= self.settings.worker_credit:
            return []
        if not has_answered or self.workers.get(worker.peer.id) is not worker:
            return []
        worker.credit += 1
        return [CreditGranted(worker.peer.id, 1)]

    def _response(
        self, worker: NfpWorker, job: JobId, message: wire.NfpReport, now: float
    ) -> Received:
        take = self._statuses.get(message.status[:3])
        if take is None:
            raise MalformedMessage(f"RESPONSE with the unknown status {message.status[:16]!r}")
        return take(worker, job, message, now)

    def _received(
        self,
        worker: NfpWorker,
        job: JobId,
        message: wire.NfpReport,
        kind: ReplyKind,
        fault: Fault | None = None,
    ) -> ReplyReceived:
        attempt, more = None, message.more
        if worker.peer.declared.attempts and more:
            # No attempt number has ten digits.
            digits, *rest = more
            attempt = int(digits) if digits.isdigit() and len(digits) < 10 else None
            more = tuple(rest)
        parts: tuple[bytes, ...] = (message.body,)
        if kind is ReplyKind.FINAL:
            parts = store_answer(message.status, (message.body, *more))
        return ReplyReceived(worker.peer.id, job, kind, Body(NAME, parts), fault, attempt)

    def _done(self, worker: NfpWorker, job: JobId, message: wire.NfpReport, now: float) -> Received:
        found = self.assignments.find(worker.peer.id, job)
        if found is not None:
            if found.announcement is not None:
                self.announcements.remember((job, worker.name), found.announcement)
            elif found.asked_at is not None:
                self._overtaken.remember((job, worker.name), True)
            self.assignments.drop(worker.peer.id, job)
        fault = bodies.read_fault(message.body)
        return [self._received(worker, job, message, ReplyKind.FINAL, fault)]

    def _accepted(
        self, worker: NfpWorker, job: JobId, message: wire.NfpReport, now: float
    ) -> Received:
        if found := self.assignments.find(worker.peer.id, job):
            found.is_accepted = True
            self.assignments.touch(found, now)
        return [self._received(worker, job, message, ReplyKind.ACCEPTED)]

    def _running(
        self, worker: NfpWorker, job: JobId, message: wire.NfpReport, now: float
    ) -> Received:
        if found := self.assignments.find(worker.peer.id, job):
            found.is_accepted = True
            self.assignments.touch(found, now)
        return [BeatReceived(worker.peer.id)]

    def _unknown_job(
        self, worker: NfpWorker, job: JobId, message: wire.NfpReport, now: float
    ) -> Received:
        """Take the job back from a worker that does not have it."""
        found = self.assignments.find(worker.peer.id, job)
        if bodies.read_status(message.body) != bodies.HANDED_BACK:
            if found is None:
                return [
                    self._noted(worker.peer, f"404 for job {job}, which was not assigned to it")
                ]
            if not found.is_accepted and not found.is_missing:
                found.is_missing = True
                self.assignments.touch(found, now)
                return [BeatReceived(worker.peer.id)]
        self.assignments.drop(worker.peer.id, job)
        fault = Fault(FaultCode.HANDED_BACK, f"{worker.name} does not have the job")
        return [self._received(worker, job, message, ReplyKind.FINAL, fault)]

    def _failed(
        self, worker: NfpWorker, job: JobId, message: wire.NfpReport, now: float
    ) -> Received:
        found = self.assignments.find(worker.peer.id, job)
        self.assignments.drop(worker.peer.id, job)
        fault = status_fault(message.status[:3], (message.body,))
        if message.status.startswith(b"417") and (
            fault.message == "CANCELLED" or (found is not None and found.is_cancelled)
        ):
            fault = Fault(FaultCode.CANCELLED, fault.message)
        return [self._received(worker, job, message, ReplyKind.FINAL, fault)]

    def _event(
        self, worker: NfpWorker, job: JobId, message: wire.NfpReport, now: float
    ) -> Received:
        if message.client == b"":
            return [self._published(worker, job, message), BeatReceived(worker.peer.id)]
        head = bodies.read_event(message.body)
        kind = _KINDS.get(head.event_type, ReplyKind.PROGRESS)
        if kind is ReplyKind.FINAL:
            return self._announced(worker, job, message, now)
        if found := self.assignments.find(worker.peer.id, job):
            found.is_accepted = True
            if head.input_request is not None:
                found.input_id = head.input_request.id
            self.assignments.touch(found, now)
        return [self._received(worker, job, message, kind)]

    def _published(self, worker: NfpWorker, topic: str, message: wire.NfpReport) -> Noted:
        return Noted(
            Kind.PUBLISHED,
            worker.peer.id,
            topic,
            Body(NAME, (message.body,)),
            service=worker.service,
            dialect=NAME,
        )

    def _announced(
        self, worker: NfpWorker, job: JobId, message: wire.NfpReport, now: float
    ) -> Received:
        """Hold the announcement back, and poll for the result."""
        if self._overtaken.pop((job, worker.name), None):
            return [BeatReceived(worker.peer.id)]
        found = self.assignments.find(worker.peer.id, job)
        if found is None:
            client = message.client or b""
            found = self.assignments.track(worker.peer.id, job, client, 0, now)
        was_polled = found.announcement is not None and found.asked_at is not None
        found.is_accepted, found.announcement = True, message.body
        poll = [] if was_polled else [self._poll(worker, found, now)]
        return [*poll, BeatReceived(worker.peer.id)]

    def _stream(
        self, worker: NfpWorker, job: JobId, message: wire.NfpReport, now: float
    ) -> Received:
        if found := self.assignments.find(worker.peer.id, job):
            self.assignments.touch(found, now)
        return [self._received(worker, job, message, ReplyKind.CHUNK)]

    # --- tasks ----------------------------------------------------------------------------------

    def work(self, effect: SendWork, now: float) -> list[Send]:
        """Encode a job for a worker."""
        body, more = self._request(effect)
        if effect.run_until is not None and effect.body.dialect != NAME:
            body = bodies.with_timeout(body, effect.run_until - now)
        resources = resources_of(effect.target)
        if resources and (effect.task or bodies.is_call(body)):
            body = bodies.with_resources(body, resources)
        client = self._client_frame(effect.client)
        self.assignments.track(effect.worker, effect.job, client, effect.attempt, now)
        self._given.remember((effect.job, effect.worker), True)
        args = (effect.worker, effect.job, client, body, effect.attempt, more)
        return [self._task(wire.POST, *args)]

    def _request(self, effect: SendWork) -> tuple[bytes, tuple[bytes, ...]]:
        """Return the body frames of a job.

        A body that is no call stops NorFab's worker, so it gets the call of the task `raw`.
        """
        body, *more = convert_call(self.codecs, effect.body, NAME).parts
        is_norfabs = not self.peers.of(effect.worker).is_binary
        if is_norfabs and not effect.task and not bodies.is_call(body):
            return _CODEC.write_call(_CODEC.read_call(effect.body)).parts[0], ()
        return body, tuple(more)

    def poll(self, effect: SendPoll, now: float) -> list[Send]:
        """Poll a worker that came back. It got the job long ago, so its 404 is final."""
        client = self._client_frame(effect.client)
        found = self.assignments.track(effect.worker, effect.job, client, effect.attempt, now)
        found.is_accepted, found.asked_at = True, now
        self._given.remember((effect.job, effect.worker), True)
        return [self._task(wire.GET, effect.worker, effect.job, client)]

    def give_input(self, effect: SendInput, now: float) -> list[Send]:
        """Forward a client's input. Input of another dialect answers the open question."""
        found = self.assignments.find(effect.worker, effect.job)
        body = effect.body
        if body.dialect != NAME:
            body = convert_answer(self.codecs, body, NAME)
            value = self.codecs[NAME].read_answer(body).value
            body = Body(NAME, (bodies.input_answer(found.input_id if found else "", value),))
        client = self._client_frame(effect.client)
        return [self._task(wire.PUT, effect.worker, effect.job, client, body.parts[0])]

    def cancel(self, effect: SendCancel, now: float) -> list[Send]:
        """Tell a worker to stop a job. NorFab's workers ignore it."""
        client = self._client_frame(effect.client)
        attempt = effect.attempt
        if found := self.assignments.find(effect.worker, effect.job):
            found.is_cancelled = True
        return [self._task(wire.DELETE, effect.worker, effect.job, client, attempt=attempt)]

    def advance(self, now: float) -> list[Send]:
        """Poll for the jobs whose poll is due."""
        sends = []
        for found in self.assignments.overdue(now):
            worker = self.workers.get(found.worker)
            if worker is None:
                # If the worker returns, the core polls it again (`SendPoll`).
                self.assignments.drop(found.worker, found.job)
            elif found.asked_at is not None and worker.heard_at <= found.asked_at:
                # The last poll is unanswered. Heartbeats decide whether the worker is alive.
                self.assignments.postpone(found, now)
            else:
                sends.append(self._poll(worker, found, now))
        return sends

    def _poll(self, worker: NfpWorker, found: Assignment, now: float) -> Send:
        self.assignments.polled(found, now)
        return self._task(wire.GET, worker.peer.id, found.job, found.client)

    def _client_frame(self, client: PeerId) -> bytes:
        """Return the client frame: the client's identity, or its id if it is on another link."""
        is_ours = link_of(client) == self.peers.link
        return (name_of(client) if is_ours else client).encode()

    def _task(
        self,
        command: str,
        worker: PeerId,
        job: JobId,
        client: bytes,
        body: bytes = b"",
        attempt: int = 0,
        more: tuple[bytes, ...] = (),
    ) -> Send:
        peer = self.peers.of(worker)
        if attempt and peer.declared.attempts:
            more = (str(attempt).encode(), *more)
        frames = wire.task_frames(command, client, job.encode(), body, peer.is_binary, more)
        return Send(peer.address, frames)

    def validate(self) -> None:
        """Assert that no worker's credit exceeds the setting."""
        most = self.settings.worker_credit
        assert all(w.credit is None or 0 < w.credit <= most for w in self.workers.values())

    def service_of(self, worker: WorkerName) -> ServiceName | None:
        """Return the service of a worker of this link."""
        found = self.by_name.get(worker)
        return found.service if found else None
