"""The broker's end of DCP: workers register, ping and reply; clients and workers send requests.

This module decodes messages into events. `workers` finds the job of a reply, `deliveries` encodes
messages to workers, `replies` those to clients. The core chooses workers, queues and retries.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dragoman.core.effects import (
    Effect,
    RequestKind,
    SendReply,
    SendStatus,
    SendWork,
)
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
from dragoman.dialects.base import (
    Address,
    BodyCodecs,
    Frames,
    MalformedMessage,
    Send,
)
from dragoman.dialects.dcp.body_codec import NAME
from dragoman.dialects.dcp.deliveries import Deliveries
from dragoman.dialects.dcp.notes import request_note, take_report
from dragoman.dialects.dcp.replies import DcpPendingRequest, DcpReplies
from dragoman.dialects.dcp.settings import DcpSettings
from dragoman.dialects.dcp.wire import (
    DcpReply,
    DcpRequest,
    Message,
    Ping,
    Pong,
    Reconnect,
    Registration,
    Tail,
    data_of,
    decode,
    encode,
    metadata_of,
)
from dragoman.dialects.dcp.workers import DcpAssignment, DcpWorker, DcpWorkers, Widths
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
    read_holds,
    read_labels,
    read_names,
    read_note,
    read_number,
    read_text,
    write_note,
)
from dragoman.dialects.parts import answer_parts
from dragoman.model.body import Body
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
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

#: The kinds of a worker's note, and what the reply then is.
_KINDS: Final = {
    "fault": ReplyKind.FINAL,
    "accepted": ReplyKind.ACCEPTED,
    "progress": ReplyKind.PROGRESS,
    "chunk": ReplyKind.CHUNK,
    "input_asked": ReplyKind.INPUT_ASKED,
}


class DcpBrokerSide:
    """One DCP link of the broker."""

    def __init__(
        self,
        link: str = NAME,
        *,
        codecs: BodyCodecs,
        ids: Callable[[], str],
        settings: DcpSettings | None = None,
    ) -> None:
        self.link = link
        self._codecs = codecs
        self._ids = ids
        self._settings = settings or DcpSettings()
        self._workers = DcpWorkers()
        self._answers = DcpReplies(codecs, self._settings.faults)
        self._widths = Widths(self._settings.width, self._settings.remembered_peers)
        self._deliveries = Deliveries(link, codecs, self._settings, self._workers, self._widths)
        #: When the last message arrived.
        self._now = 0.0

    # --- messages of peers ------------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> list[Event | Send]:
        """Decode one message."""
        message = decode(frames)
        self._now = now
        self._widths.store(address, message.width)
        decoded = _RECEIVERS[type(message)](self, address, message)
        worker = self._workers.present.get(address)
        if worker is not None:
            worker.seen_at = now
        return decoded

    def _registration(self, address: Address, m: Registration) -> list[Event | Send]:
        """Register the sender as a worker of this service, in place of an earlier one."""
        note = read_note(m.surplus[0]) if m.surplus else None
        holds = read_holds((note or {}).get("holds"))
        worker = self._workers.join(address, self._peer(address))
        if holds is not None:
            worker.keep_only(holds, self._now)
        worker.service, worker.is_free, worker.reads_notes = m.service, True, note is not None
        worker.answers_polls = (note or {}).get("polls") is True
        echo = Registration(m.service, m.surplus[:1] if note is not None else (), m.width)
        return [Send(address, encode(echo)), self._joined(address, worker, note or {})]

    def _joined(self, address: Address, worker: DcpWorker, note: Note) -> WorkerJoined:
        settings = self._settings
        beats = read_number(note.get("beat_every")) or settings.beat_every
        return WorkerJoined(
            worker.peer,
            WorkerName(read_text(note.get("name")) or text_of(address)),
            (service_name(worker.service),),
            credit=read_credit(note.get("credit")),
            credit_returns=worker.reads_notes,
            beat_every=beats,
            missed_allowed=settings.missed_allowed,
            missed_allowed_busy=None if worker.reads_notes else settings.missed_allowed_busy,
            can_cancel=worker.reads_notes,
            labels=read_labels(note.get("labels")),
            # Only our own worker declares what it holds. For any other the assignments stay: it
            # may only repeat its registration.
            holds=read_holds(note.get("holds")),
            dialect=NAME,
        )

    def _ping(self, address: Address, m: Ping) -> list[Event | Send]:
        worker = self._workers.present.get(address)
        if worker is None:
            return [Send(address, encode(Reconnect(m.width)))]
        answers: list[Event | Send] = [
            Send(address, encode(Pong(m.width))),
            BeatReceived(worker.peer),
        ]
        if self._settings.ping_asks_for_work or not worker.is_busy:
            answers += self._respond(worker)
        return answers

    def _respond(self, worker: DcpWorker) -> list[Event]:
        """Grant the next request to a worker that responded; a repeated ping grants nothing."""
        if worker.reads_notes or worker.is_free:
            return []
        worker.is_free = True
        return [CreditGranted(worker.peer)]

    def _pong(self, address: Address, m: Pong) -> list[Event | Send]:
        worker = self._workers.present.get(address)
        if worker is None:
            return [self._rejected(address, "pong from a peer that is not registered")]
        return [BeatReceived(worker.peer)]

    def _reconnect(self, address: Address, m: Reconnect) -> list[Event | Send]:
        """Unregister a worker. The text gives a worker's reconnect no other meaning."""
        worker = self._workers.present.get(address)
        if worker is None:
            return [self._rejected(address, "reconnect from a peer that is not registered")]
        worker.has_left = True
        self._workers.leave(address)
        return [PeerLeft(self._peer(address), "unregistered")]

    def _reply(self, address: Address, m: DcpReply) -> list[Event | Send]:
        worker = self._workers.find(address)
        tail, note = take_report(m.tail)
        held = worker.find(m.client, tail) if worker is not None else None
        if held is None and (found := self._workers.find_unnamed(m.client, tail)):
            worker, held = found
        if worker is None or held is None:
            return [self._rejected(address, "a reply that matches no request of this worker")]
        kind = _KINDS.get(read_text((note or {}).get("kind")), ReplyKind.FINAL)
        if note is not None and kind is not ReplyKind.FINAL:
            return [self._report(worker, held, kind, m.tail, note)]
        fault = read_fault(note) if note is not None and note["kind"] == "fault" else None
        data = data_of(tail)
        if fault is not None and not data:
            # Readers of the body, in every dialect, then find the fault there, too.
            data = answer_parts(Answer(fault=fault))
        body = Body(NAME, (*held.metadata, b"", *data))
        final = ReplyReceived(worker.peer, held.job, kind, body, fault, held.attempt)
        return [final, *self._done(address, worker, held)]

    def _report(
        self, worker: DcpWorker, held: DcpAssignment, kind: ReplyKind, tail: Tail, note: Note
    ) -> ReplyReceived:
        """Decode a report. Its note stays in the body for our own clients."""
        if kind is ReplyKind.INPUT_ASKED:
            worker.questions[held.job] = read_text(note.get("request"))
        return ReplyReceived(worker.peer, held.job, kind, Body(NAME, tail), None, held.attempt)

    def _done(self, address: Address, worker: DcpWorker, held: DcpAssignment) -> list[Event]:
        worker.drop(held.job)
        return self._respond(worker) if self._workers.present.get(address) is worker else []

    def _request(self, address: Address, m: DcpRequest) -> list[Event | Send]:
        note = request_note(m.tail)
        if note is not None and "ask" in note:
            return self._question(address, m, note)
        worker = self._workers.present.get(address)
        names_other = m.client not in (b"", address)
        if worker is not None and names_other:
            held = worker.find(m.client, m.tail) or worker.oldest_of(m.client)
            if held is not None:
                return self._handed_over(address, worker, held, m)
        if names_other and worker is None and not self._settings.takes_named_clients:
            # A stranger could send replies to others; a worker passes requests on.
            text = f"named the client {text_of(m.client)}; replaced by its own address"
            own = replace(m, client=b"")
            return [self._rejected(address, text), *self._submitted(address, own, note)]
        return self._submitted(address, m, note)

    def _submitted(self, address: Address, m: DcpRequest, note: Note | None) -> list[Event | Send]:
        """Submit a request as a job of its sender, or of the client that it names."""
        fields = note or {}
        client = self._peer(m.client or address)
        job = JobId(read_text(fields.get("job")) or self._ids())
        service = service_name(m.service)
        settings, target = self._settings, note_target(fields)
        terms = note_terms(settings.services.get(service, settings.terms), fields)
        self._answers.expect(job, client, DcpPendingRequest(metadata_of(m.tail), note is not None))
        body, task = Body(NAME, m.tail), read_text(fields.get("task"))
        return [JobSubmitted(job, client, service, body, target, terms, task)]

    def _handed_over(
        self, address: Address, worker: DcpWorker, held: DcpAssignment, m: DcpRequest
    ) -> list[Event | Send]:
        """Forward a worker's job. The same request to its own service returns the job unrun."""
        service, body = service_name(m.service), Body(NAME, m.tail)
        self._answers.follow(held.job, self._peer(m.client), metadata_of(m.tail))
        event: Event = JobForwarded(worker.peer, held.job, service, body, attempt=held.attempt)
        if service == held.service and m.tail == held.body.parts:
            fault = Fault(FaultCode.HANDED_BACK, "the worker sent the request back")
            event = ReplyReceived(
                worker.peer, held.job, ReplyKind.FINAL, fault=fault, attempt=held.attempt
            )
        return [event, *self._done(address, worker, held)]

    def _question(self, address: Address, m: DcpRequest, note: Note) -> list[Event | Send]:
        """Decode a question of our own client about a job."""
        if note["ask"] == "confirm":
            return self._confirm(address, m, note)
        job, client = JobId(read_text(note.get("job"))), self._peer(address)
        if not job:
            raise MalformedMessage("the note of a request names no job")
        kind = request_kind(note)
        if kind is not RequestKind.INPUT:
            self._answers.expect_status(job, client, kind, m.tail)
        return [question_event(kind, job, client, note, Body(NAME, m.tail))]

    def _confirm(self, address: Address, m: DcpRequest, note: Note) -> list[Event | Send]:
        """Tell our own worker which of its finished jobs this broker still waits for.

        The answer is strict: it leaves when every result that came before is on disk.
        """
        jobs, worker = read_names(note.get("jobs")), self._workers.find(address)
        waits = {job for job in jobs if worker is not None and worker.holding(JobId(job))}
        recorded = [job for job in jobs if job not in waits]
        report = write_note({"kind": "confirmed", "recorded": recorded, "open": sorted(waits)})
        answer = DcpRequest(m.service, b"", (report, b""), m.width)
        return [Send(address, encode(answer), is_strict=True)]

    def _rejected(self, address: Address, text: str) -> Noted:
        return Noted(Kind.REJECTED, self._peer(address), text, dialect=NAME)

    def _peer(self, address: Address) -> PeerId:
        return peer_id(self.link, text_of(address))

    def deny(
        self,
        address: Address,
        frames: Frames,
        sends: list[Send] | None,
        fault: Fault,
        now: float,
    ) -> list[Send]:
        """Send nothing: the text has no refusal, and a reconnect would only repeat the request."""
        return []

    # --- effects ----------------------------------------------------------------------------

    def resume_request(self, job: JobId, client: PeerId, body: Body, now: float) -> None:
        """Remember a request that a client sent to an earlier process."""
        if body.dialect == NAME and not self._answers.is_pending(job, client):
            reads_notes = request_note(body.parts) is not None
            pending = DcpPendingRequest(metadata_of(body.parts), reads_notes)
            self._answers.expect(job, client, pending)

    def resume_work(self, effect: SendWork, now: float) -> None:
        """Remember a request that an earlier process sent to a worker of this link."""
        self._deliveries.resume_work(effect, now)

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Encode one effect for a peer of this link."""
        if type(effect) is SendReply:
            return self._to_client(effect.client, self._answers.reply(effect))
        if type(effect) is SendStatus:
            return self._to_client(effect.client, self._answers.status(effect))
        return self._deliveries.render(effect, now)

    def _to_client(self, client: PeerId, tail: Tail | None) -> list[Send]:
        if tail is None:
            return []
        address = raw_of(name_of(client))
        return [Send(address, encode(DcpReply(address, tail, self._widths.of(address))))]

    # --- time -------------------------------------------------------------------------------

    def advance(self, now: float) -> list[Event | Send]:
        """Return nothing: this side has no timers; the core keeps leases."""
        return []

    def next_deadline(self) -> float | None:
        """Return None: this side has no timers."""
        return None


_RECEIVERS: Final[
    dict[type[Message], Callable[[DcpBrokerSide, Address, Any], list[Event | Send]]]
] = {
    Registration: DcpBrokerSide._registration,
    Ping: DcpBrokerSide._ping,
    Pong: DcpBrokerSide._pong,
    DcpRequest: DcpBrokerSide._request,
    DcpReply: DcpBrokerSide._reply,
    Reconnect: DcpBrokerSide._reconnect,
}
