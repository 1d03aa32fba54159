"""The broker's end of DCP: workers register, ping and reply; clients, and workers too, request.

Who may say what, and what the wire leaves unsaid, lives here and in `crew` (which job a reply
answers) and `answers` (what clients are told). Choosing workers, queues and retries must not.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dragoman.core.effects import (
    Effect,
    RequestKind,
    SendReply,
    SendStatus,
)
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    Event,
    InputReceived,
    JobCancelled,
    JobForwarded,
    JobSubmitted,
    Noted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    ResultRequested,
    WorkerJoined,
)
from dragoman.dialects.base import (
    Address,
    BodyCodecs,
    Frames,
    MalformedMessage,
    Send,
)
from dragoman.dialects.dcp.body_codec import NAME, answer_parts
from dragoman.dialects.dcp.deliveries import Deliveries
from dragoman.dialects.dcp.notes import (
    Note,
    read_fault,
    read_note,
    request_note,
    said_credit,
    said_labels,
    said_number,
    said_target,
    said_text,
    take_report,
)
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
from dragoman.model.body import Body
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import (
    EVERY_SERVICE,
    JobId,
    PeerId,
    ServiceName,
    WorkerName,
    name_of,
    peer_id,
    raw_of,
    text_of,
)
from dragoman.model.record import Kind
from dragoman.model.terms import Terms

#: What a worker of ours may say in a note beside a reply.
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
        self._crew = DcpWorkers()
        self._answers = DcpReplies(codecs, self._settings.faults)
        self._widths = Widths(self._settings.width, self._settings.remembered_peers)
        self._deliveries = Deliveries(link, codecs, self._settings, self._crew, self._widths)

    # --- what peers say ---------------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> list[Event | Send]:
        """Take one message in."""
        message = decode(frames)
        self._widths.hear(address, message.width)
        said = _RECEIVERS[type(message)](self, address, message)
        worker = self._crew.present.get(address)
        if worker is not None:
            worker.seen_at = now
        return said

    def _registration(self, address: Address, m: Registration) -> list[Event | Send]:
        """Make the sender a worker of this service, whatever it was before."""
        note = read_note(m.surplus[0]) if m.surplus else None
        if note is not None and note.get("holds") == 0:
            self._crew.forget(address)
        worker = self._crew.join(address, self._peer(address))
        worker.service, worker.is_free, worker.reads_notes = m.service, True, note is not None
        worker.answers_polls = (note or {}).get("polls") is True
        echo = Registration(m.service, m.surplus[:1] if note is not None else (), m.width)
        return [Send(address, encode(echo)), self._joined(address, worker, note or {})]

    def _joined(self, address: Address, worker: DcpWorker, note: Note) -> WorkerJoined:
        settings = self._settings
        beats = said_number(note.get("beat_every")) or settings.beat_every
        return WorkerJoined(
            worker.peer,
            WorkerName(said_text(note.get("name")) or text_of(address)),
            (service_name(worker.service),),
            credit=said_credit(note.get("credit")),
            credit_returns=worker.reads_notes,
            beat_every=beats,
            missed_allowed=settings.missed_allowed,
            missed_allowed_busy=None if worker.reads_notes else settings.missed_allowed_busy,
            can_cancel=worker.reads_notes,
            labels=said_labels(note.get("labels")),
            # Only a worker of ours can say that it starts with empty hands. Of any other that
            # registers again the assignments stand: it may just repeat itself.
            holds=frozenset() if note.get("holds") == 0 else None,
            dialect=NAME,
        )

    def _ping(self, address: Address, m: Ping) -> list[Event | Send]:
        worker = self._crew.present.get(address)
        if worker is None:
            return [Send(address, encode(Reconnect(m.width)))]
        said: list[Event | Send] = [
            Send(address, encode(Pong(m.width))),
            BeatReceived(worker.peer),
        ]
        if self._settings.ping_asks_for_work or not worker.is_busy:
            said += self._respond(worker)
        return said

    def _respond(self, worker: DcpWorker) -> list[Event]:
        """Let a worker that responded have the next request; asking twice is asking once."""
        if worker.reads_notes or worker.is_free:
            return []
        worker.is_free = True
        return [CreditGranted(worker.peer)]

    def _pong(self, address: Address, m: Pong) -> list[Event | Send]:
        worker = self._crew.present.get(address)
        if worker is None:
            return [self._rejected(address, "pong from a peer that is not registered")]
        return [BeatReceived(worker.peer)]

    def _reconnect(self, address: Address, m: Reconnect) -> list[Event | Send]:
        """Take a worker's reconnect as its good-bye; the text gives it no other meaning."""
        worker = self._crew.present.get(address)
        if worker is None:
            return [self._rejected(address, "reconnect from a peer that is not registered")]
        worker.has_left = True
        self._crew.part(address)
        return [PeerLeft(self._peer(address), "said good-bye")]

    def _reply(self, address: Address, m: DcpReply) -> list[Event | Send]:
        worker = self._crew.speaker(address)
        tail, note = take_report(m.tail)
        held = worker.find(m.client, tail) if worker is not None else None
        if worker is None or held is None:
            return [self._rejected(address, "a reply that nobody waits for")]
        kind = _KINDS.get(said_text((note or {}).get("kind")), ReplyKind.FINAL)
        if note is not None and kind is not ReplyKind.FINAL:
            return [self._report(worker, held, kind, m.tail, note)]
        fault = read_fault(note) if note is not None and note["kind"] == "fault" else None
        data = data_of(tail)
        if fault is not None and not data:
            # So that whoever reads the body, in whatever dialect, sees the fault in it too.
            data = answer_parts(Answer(fault=fault))
        body = Body(NAME, (*held.mark[1], b"", *data))
        final = ReplyReceived(worker.peer, held.job, kind, body, fault, held.attempt)
        return [final, *self._done(address, worker, held)]

    def _report(
        self, worker: DcpWorker, held: DcpAssignment, kind: ReplyKind, tail: Tail, note: Note
    ) -> ReplyReceived:
        """Take a word on the way, note and all: a client of ours reads it there."""
        if kind is ReplyKind.INPUT_ASKED:
            worker.questions[held.job] = said_text(note.get("request"))
        return ReplyReceived(worker.peer, held.job, kind, Body(NAME, tail), None, held.attempt)

    def _done(self, address: Address, worker: DcpWorker, held: DcpAssignment) -> list[Event]:
        worker.drop(held.job)
        return self._respond(worker) if address in self._crew.present else []

    def _request(self, address: Address, m: DcpRequest) -> list[Event | Send]:
        note = request_note(m.tail)
        if note is not None and "ask" in note:
            return self._question(address, m, note)
        worker = self._crew.present.get(address)
        names_other = m.client not in (b"", address)
        if worker is not None and names_other:
            held = worker.find(m.client, m.tail)
            if held is not None:
                return self._handed_over(address, worker, held, m)
        if names_other and not self._settings.takes_named_clients:
            words = f"named the client {text_of(m.client)}; its own address was put instead"
            own = replace(m, client=b"")
            return [self._rejected(address, words), *self._submitted(address, own, note)]
        return self._submitted(address, m, note)

    def _submitted(self, address: Address, m: DcpRequest, note: Note | None) -> list[Event | Send]:
        """Take a request in as a new job, of its sender or of the client it names."""
        said = note or {}
        client = self._peer(m.client or address)
        job = JobId(said_text(said.get("job")) or self._ids())
        service = service_name(m.service)
        try:
            target = said_target(said.get("target"))
        except ValueError as trouble:
            raise MalformedMessage(str(trouble)) from None
        self._answers.expect(job, client, DcpPendingRequest(metadata_of(m.tail), note is not None))
        body, terms, task = Body(NAME, m.tail), self._terms(service, said), said.get("task")
        return [JobSubmitted(job, client, service, body, target, terms, said_text(task))]

    def _terms(self, service: ServiceName, note: Note) -> Terms:
        terms = self._settings.services.get(service, self._settings.terms)
        timeout, priority = said_number(note.get("timeout")), note.get("priority")
        if timeout is not None:
            terms = replace(terms, timeout=timeout)
        if type(priority) is int and priority and abs(priority) < 2**31:
            terms = replace(terms, priority=priority)
        return terms

    def _handed_over(
        self, address: Address, worker: DcpWorker, held: DcpAssignment, m: DcpRequest
    ) -> list[Event | Send]:
        """Pass a worker's job on. The very same request to its own service is a job unrun."""
        service, body = service_name(m.service), Body(NAME, m.tail)
        event: Event = JobForwarded(worker.peer, held.job, service, body, attempt=held.attempt)
        if service == held.service and m.tail == held.body.parts:
            fault = Fault(FaultCode.HANDED_BACK, "the worker asked for the same again")
            event = ReplyReceived(
                worker.peer, held.job, ReplyKind.FINAL, fault=fault, attempt=held.attempt
            )
        return [event, *self._done(address, worker, held)]

    def _question(self, address: Address, m: DcpRequest, note: Note) -> list[Event | Send]:
        """Take what a client of ours asks about a job that it names."""
        job, client = JobId(said_text(note.get("job"))), self._peer(address)
        asked = _QUESTIONS.get(said_text(note.get("ask")))
        if asked is None or not job:
            raise MalformedMessage("a note asks for nothing that is known, or names no job")
        if asked is RequestKind.INPUT:
            worker = said_text(note.get("worker"))
            named = WorkerName(worker) if worker else None
            return [InputReceived(job, client, Body(NAME, m.tail), named)]
        self._answers.expect_status(job, client, asked, m.tail)
        if asked is RequestKind.CANCEL:
            return [JobCancelled(job, client)]
        return [ResultRequested(job, client)]

    def _rejected(self, address: Address, words: str) -> Noted:
        return Noted(Kind.REJECTED, self._peer(address), words, dialect=NAME)

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
        """Echo no registration, answer no ping: the text's only no is to ask for another one."""
        return []

    # --- what the broker says ---------------------------------------------------------------

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Put one effect on a peer of this link into messages."""
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
        """Do nothing: the side has no timers, leases are the core's."""
        return []

    def next_deadline(self) -> float | None:
        """Want nothing."""
        return None


def service_name(raw: bytes) -> ServiceName:
    """Name a service; the bytes that would be the reserved name are written in hex."""
    name = text_of(raw)
    return ServiceName(name if name != EVERY_SERVICE else "0x" + raw.hex())


_QUESTIONS: Final = {asked.value: asked for asked in RequestKind}
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
