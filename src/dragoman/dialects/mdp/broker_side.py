"""The broker's end of MDP: clients and workers of versions 0.1 and 0.2 on one ROUTER.

This module decodes messages into events. `services` serves MMI and Titanic, `deliveries` encodes
messages to workers, `replies` those to clients. The core chooses workers, queues and retries.
"""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.effects import Effect, RequestKind, SendReply, SendStatus, SendWork
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    Event,
    JobForwarded,
    JobSubmitted,
    Noted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.dialects.base import Address, BodyCodecs, Frames, MalformedMessage, Send
from dragoman.dialects.mdp.deliveries import MdpDeliveries
from dragoman.dialects.mdp.replies import MdpPendingRequest, MdpReplies, RequestOrigin
from dragoman.dialects.mdp.services import MdpServices, is_reserved
from dragoman.dialects.mdp.settings import MdpSettings
from dragoman.dialects.mdp.wire import (
    NAME,
    ClientReply,
    ClientRequest,
    MdpDisconnect,
    MdpHeartbeat,
    MdpReady,
    WorkerReply,
    WorkerRequest,
    decode,
    encode,
)
from dragoman.dialects.mdp.workers import MdpAssignment, MdpWorker, MdpWorkers
from dragoman.dialects.note_requests import (
    note_target,
    note_terms,
    question_event,
    request_kind,
    service_name,
)
from dragoman.dialects.notes import (
    Note,
    read_credit,
    read_fault,
    read_labels,
    read_names,
    read_note,
    read_number,
    read_text,
    write_note,
)
from dragoman.model.body import Body
from dragoman.model.fault import Fault
from dragoman.model.names import (
    JobId,
    PeerId,
    WorkerName,
    name_of,
    peer_id,
    raw_of,
    text_of,
)
from dragoman.model.record import Kind

Received = list[Event | Send]
#: The kinds of a worker's note in a PARTIAL, and what the reply then is.
_KINDS: Final = {
    "accepted": ReplyKind.ACCEPTED,
    "progress": ReplyKind.PROGRESS,
    "chunk": ReplyKind.CHUNK,
    "input_asked": ReplyKind.INPUT_ASKED,
}


class MdpBrokerSide:
    """One MDP link of the broker."""

    def __init__(
        self,
        link: str = NAME,
        *,
        codecs: BodyCodecs,
        ids: Callable[[], str],
        settings: MdpSettings | None = None,
    ) -> None:
        self.link = link
        self._ids = ids
        self._settings = settings or MdpSettings()
        self._workers = MdpWorkers()
        self._replies = MdpReplies(codecs, self._settings.faults == "silent")
        self._deliveries = MdpDeliveries(codecs, self._settings, self._workers)
        self._services = MdpServices(codecs, self._settings, self._replies, ids)

    # --- messages of peers ------------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> Received:
        """Decode one message."""
        message = decode(frames)
        return _RECEIVERS[type(message)](self, address, message, now)

    def deny(
        self,
        address: Address,
        frames: Frames,
        sends: list[Send] | None,
        fault: Fault,
        now: float,
    ) -> list[Send]:
        """Do not confirm a refused READY; the core's answer is DISCONNECT."""
        return [] if isinstance(decode(frames), MdpReady) else sends or []

    def _ready(self, address: Address, m: MdpReady, now: float) -> Received:
        note = read_note(m.surplus[0]) if m.surplus else None
        service = text_of(m.service)
        if address in self._workers.present and note is None:
            return self._unexpected(address, m.version, "READY of a registered worker")
        if not m.service or is_reserved(service):
            detail = f"READY for the reserved service {service!r}"
            return [self._disconnect(address, m.version), self._rejected(address, detail)]
        has_notes = note is not None
        worker = self._workers.join(address, self._peer(address), m.service, m.version, has_notes)
        joined = self._joined(address, worker, note or {})
        if not has_notes:
            return [joined]
        # Our own worker learns that this broker uses notes. The text has no answer to READY.
        confirmed = MdpHeartbeat((write_note({"agent": "dragoman"}),), m.version)
        return [Send(address, encode(confirmed)), joined]

    def _joined(self, address: Address, worker: MdpWorker, note: Note) -> WorkerJoined:
        settings, has_notes = self._settings, worker.has_notes
        # The text has one request at a time, so a worker that is READY holds none.
        holds = frozenset(map(JobId, read_names(note.get("holds")))) if has_notes else frozenset()
        return WorkerJoined(
            worker.peer,
            WorkerName(read_text(note.get("name")) or text_of(address)),
            (service_name(worker.service),),
            credit=read_credit(note.get("credit")) if has_notes else 1,
            credit_returns=has_notes,
            beat_every=read_number(note.get("beat_every")) or settings.beat_every,
            missed_allowed=settings.missed_allowed,
            missed_allowed_busy=None if has_notes else settings.missed_allowed_busy,
            can_cancel=has_notes,
            labels=read_labels(note.get("labels")),
            holds=holds,
            dialect=NAME,
        )

    def _heartbeat(self, address: Address, m: MdpHeartbeat, now: float) -> Received:
        worker = self._workers.present.get(address)
        if worker is None:
            return [self._disconnect(address, m.version)]
        note = read_note(m.surplus[0]) if m.surplus and worker.has_notes else None
        if note is None:
            return [BeatReceived(worker.peer)]
        return [BeatReceived(worker.peer), self._confirm(address, worker, note)]

    def _confirm(self, address: Address, worker: MdpWorker, note: Note) -> Send:
        """Tell our own worker which of its finished jobs this broker still waits for.

        The answer is strict: it leaves when every result that came before is on disk.
        """
        jobs = read_names(note.get("unconfirmed"))
        waits = [job for job in jobs if worker.find(JobId(job)) is not None]
        recorded = [job for job in jobs if job not in waits]
        answer = write_note({"recorded": recorded, "open": waits})
        heartbeat = encode(MdpHeartbeat((answer,), worker.version))
        return Send(address, heartbeat, is_strict=True)

    def _left(self, address: Address, m: MdpDisconnect, now: float) -> Received:
        worker = self._workers.leave(address)
        return [PeerLeft(worker.peer, "unregistered")] if worker is not None else []

    def _unexpected(self, address: Address, version: int, detail: str) -> Received:
        """Disconnect a worker after a valid but unexpected command, as the text demands."""
        answers: Received = [self._disconnect(address, version), self._rejected(address, detail)]
        worker = self._workers.leave(address)
        return [*answers, PeerLeft(worker.peer, detail)] if worker is not None else answers

    def _reply(self, address: Address, m: WorkerReply, now: float) -> Received:
        worker = self._workers.find(address)
        if worker is None or m.client not in worker.held:
            worker = self._workers.find_unnamed(m.client) or worker
        if worker is None or (not worker.service and m.client not in worker.held):
            return self._unexpected(address, m.version, "a reply of an unregistered worker")
        if not worker.service:
            return self._reply_after_restart(address, worker, m)
        found = worker.held.get(m.client)
        if found is None:
            rejected = self._rejected(address, "a reply that matches no request of this worker")
            return [rejected, BeatReceived(worker.peer)]
        worker.touch(found, now)
        if worker.has_notes:
            return self._noted_reply(worker, found, m)
        kind = ReplyKind.FINAL if m.is_final else ReplyKind.CHUNK
        reply = ReplyReceived(
            worker.peer, found.job, kind, Body(NAME, m.body), attempt=found.attempt
        )
        if not m.is_final:
            return [reply]
        worker.drop(found)
        return [reply, CreditGranted(worker.peer)]

    def _reply_after_restart(self, address: Address, worker: MdpWorker, m: WorkerReply) -> Received:
        """Decode a reply to what an earlier process sent; have the worker register again."""
        found = worker.held[m.client]
        if read_note(m.body[0]) is not None:
            return [*self._noted_reply(worker, found, m), self._disconnect(address, m.version)]
        kind = ReplyKind.FINAL if m.is_final else ReplyKind.CHUNK
        if m.is_final:
            worker.drop(found)
        body, attempt = Body(NAME, m.body), found.attempt
        reply = ReplyReceived(worker.peer, found.job, kind, body, attempt=attempt)
        if address in self._workers.present:
            return [reply]
        return [reply, self._disconnect(address, m.version)]

    def _noted_reply(self, worker: MdpWorker, found: MdpAssignment, m: WorkerReply) -> Received:
        """Decode a reply of our own worker, whose first frame is a note."""
        note = read_note(m.body[0])
        if note is None:
            raise MalformedMessage("a reply of a worker with notes begins with a note")
        kind, body = read_text(note.get("kind")), Body(NAME, m.body[1:])
        if not m.is_final:
            if kind == "input_asked":
                worker.questions[found.job] = read_text(note.get("request"))
            reply = _KINDS.get(kind, ReplyKind.PROGRESS)
            return [ReplyReceived(worker.peer, found.job, reply, body, attempt=found.attempt)]
        worker.drop(found)
        if kind == "forward":
            service = service_name(read_text(note.get("service")).encode())
            attempt = found.attempt
            return [JobForwarded(worker.peer, found.job, service, body, attempt=attempt)]
        fault = read_fault(note) if kind == "fault" else None
        return [ReplyReceived(worker.peer, found.job, ReplyKind.FINAL, body, fault, found.attempt)]

    def _request(self, address: Address, m: ClientRequest, now: float) -> Received:
        client = self._peer(address)
        note = read_note(m.body[0])
        if note is not None:
            return self._noted_request(client, m, note)
        answers = self._services.receive(address, client, m)
        if answers is not None:
            return answers
        job, service = JobId(self._ids()), service_name(m.service)
        self._replies.expect(job, client, MdpPendingRequest(m.service, m.version))
        terms = self._settings.terms_of(service)
        return [JobSubmitted(job, client, service, Body(NAME, m.body), terms=terms)]

    def _noted_request(self, client: PeerId, m: ClientRequest, note: Note) -> Received:
        """Decode a request of our own client, whose first frame is a note."""
        job = JobId(read_text(note.get("job")))
        if not job:
            raise MalformedMessage("the note of a request names no job")
        pending = MdpPendingRequest(m.service, m.version, RequestOrigin.NOTES)
        if "ask" in note:
            return [self._question(client, m, job, note, pending)]
        service, target = service_name(m.service), note_target(note)
        terms = note_terms(self._settings.terms_of(service), note)
        self._replies.expect(job, client, pending)
        return [
            JobSubmitted(
                job,
                client,
                service,
                Body(NAME, m.body[1:]),
                target,
                terms,
                read_text(note.get("task")),
                read_text(note.get("key")),
            )
        ]

    def _question(
        self, client: PeerId, m: ClientRequest, job: JobId, note: Note, pending: MdpPendingRequest
    ) -> Event:
        kind = request_kind(note)
        if kind is not RequestKind.INPUT:
            self._replies.expect_status(job, client, kind, pending)
        return question_event(kind, job, client, note, Body(NAME, m.body[1:]))

    def _wrong_way(self, address: Address, m: WorkerRequest | ClientReply, now: float) -> Received:
        if address in self._workers.present:
            return self._unexpected(address, m.version, "a message that only a broker sends")
        raise MalformedMessage("a message that only a broker sends")

    def _disconnect(self, address: Address, version: int) -> Send:
        return Send(address, encode(MdpDisconnect(version)))

    def _rejected(self, address: Address, detail: str) -> Noted:
        return Noted(Kind.REJECTED, self._peer(address), detail, dialect=NAME)

    def _peer(self, address: Address) -> PeerId:
        return peer_id(self.link, text_of(address))

    # --- effects ----------------------------------------------------------------------------

    def resume_work(self, effect: SendWork, now: float) -> None:
        """Remember a request that an earlier process sent to a worker of this link."""
        self._deliveries.resume_work(effect, now)

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Encode one effect for a peer of this link."""
        if type(effect) is SendReply:
            reply = self._replies.reply(effect, self._deliveries.question(effect.job))
            return self._to_client(effect.client, reply)
        if type(effect) is SendStatus:
            return self._to_client(effect.client, self._services.status(effect))
        return self._deliveries.render(effect, now)

    def _to_client(self, client: PeerId, reply: ClientReply | None) -> list[Send]:
        return [Send(raw_of(name_of(client)), encode(reply))] if reply is not None else []

    def advance(self, now: float) -> list[Event | Send]:
        """Return nothing: this side has no timers; the core keeps leases."""
        return []

    def next_deadline(self) -> float | None:
        """Return None: this side has no timers."""
        return None


_RECEIVERS: Final[dict[type, Callable[[MdpBrokerSide, Address, Any, float], Received]]] = {
    ClientRequest: MdpBrokerSide._request,
    ClientReply: MdpBrokerSide._wrong_way,
    MdpReady: MdpBrokerSide._ready,
    WorkerRequest: MdpBrokerSide._wrong_way,
    WorkerReply: MdpBrokerSide._reply,
    MdpHeartbeat: MdpBrokerSide._heartbeat,
    MdpDisconnect: MdpBrokerSide._left,
}
