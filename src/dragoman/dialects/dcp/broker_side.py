"""The broker's end of DCP: workers register, ping and reply; clients, and workers too, request.

Who may say what, and what the wire leaves unsaid, lives here and in `crew` (which job a reply
answers) and `answers` (what clients are told). Choosing workers, queues and retries must not.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dragoman.core.effects import (
    Asked,
    Dismiss,
    Effect,
    SendBeat,
    SendCancel,
    SendInput,
    SendReply,
    SendStatus,
    SendWork,
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
    Frames,
    MalformedMessage,
    Send,
    Wardrobe,
    redress_answer,
    redress_call,
)
from dragoman.dialects.dcp.answers import Answers, Asking
from dragoman.dialects.dcp.crew import Crew, Held, Worker
from dragoman.dialects.dcp.dress import NAME
from dragoman.dialects.dcp.notes import (
    Note,
    read_fault,
    read_note,
    request_note,
    take_report,
    with_report,
    write_note,
)
from dragoman.dialects.dcp.settings import Settings
from dragoman.dialects.dcp.wire import (
    Message,
    Ping,
    Pong,
    Reconnect,
    Registration,
    Reply,
    Request,
    Tail,
    decode,
    encode,
    metadata_of,
)
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import (
    EVERY_SERVICE,
    JobId,
    PeerId,
    ServiceName,
    WorkerName,
    link_of,
    name_of,
    peer_id,
    raw_of,
    text_of,
)
from dragoman.model.record import Kind
from dragoman.model.target import ANY, Target, parse_target
from dragoman.model.terms import Terms

#: What a worker of ours may say in a note beside a reply.
_KINDS: Final = {
    "fault": ReplyKind.FINAL,
    "accepted": ReplyKind.ACCEPTED,
    "progress": ReplyKind.PROGRESS,
    "chunk": ReplyKind.CHUNK,
    "input_asked": ReplyKind.INPUT_ASKED,
}
_MOST_CREDIT: Final = 10_000
_LONGEST_NAME: Final = 256


class BrokerSide:
    """One DCP link of the broker."""

    def __init__(
        self,
        link: str = NAME,
        *,
        wardrobe: Wardrobe,
        ids: Callable[[], str],
        settings: Settings | None = None,
    ) -> None:
        self.link = link
        self._wardrobe = wardrobe
        self._ids = ids
        self._settings = settings or Settings()
        self._crew = Crew()
        self._answers = Answers(wardrobe, self._settings.faults)
        #: The width each peer spoke last, the one not heard for longest first.
        self._widths: OrderedDict[Address, int] = OrderedDict()

    # --- what peers say ---------------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> list[Event | Send]:
        """Take one message in."""
        message = decode(frames)
        self._hear(address, message.width)
        said = _RECEIVERS[type(message)](self, address, message)
        worker = self._crew.present.get(address)
        if worker is not None:
            worker.seen_at = now
        return said

    def _hear(self, address: Address, width: int) -> None:
        self._widths[address] = width
        self._widths.move_to_end(address)
        if len(self._widths) > self._settings.remembered_peers:
            self._widths.popitem(last=False)

    def _registration(self, address: Address, m: Registration) -> list[Event | Send]:
        """Make the sender a worker of this service, whatever it was before."""
        note = read_note(m.surplus[0]) if m.surplus else None
        if note is not None and note.get("holds") == 0:
            self._crew.forget(address)
        worker = self._crew.join(address, self._peer(address))
        worker.service, worker.is_free, worker.reads_notes = m.service, True, note is not None
        echo = Registration(m.service, m.surplus[:1] if note is not None else (), m.width)
        return [Send(address, encode(echo)), self._joined(address, worker, note or {})]

    def _joined(self, address: Address, worker: Worker, note: Note) -> WorkerJoined:
        settings = self._settings
        beats = _number(note.get("beat_every"), settings.beat_every)
        return WorkerJoined(
            worker.peer,
            WorkerName(_text(note.get("name")) or text_of(address)),
            (service_name(worker.service),),
            credit=_credit(note.get("credit")),
            credit_returns=worker.reads_notes,
            beat_every=beats,
            missed_allowed=settings.missed_allowed,
            missed_allowed_busy=None if worker.reads_notes else settings.missed_allowed_busy,
            can_cancel=worker.reads_notes,
            # Only a worker of ours can say that it starts with empty hands. Of any other that
            # registers again the assignments stand: it may just repeat itself.
            holds=frozenset() if note.get("holds") == 0 else None,
            dialect=NAME,
        )

    def _ping(self, address: Address, m: Ping) -> list[Event | Send]:
        worker = self._crew.present.get(address)
        if worker is None:
            return [self._send(address, Reconnect)]
        said: list[Event | Send] = [self._send(address, Pong), BeatReceived(worker.peer)]
        if self._settings.ping_asks_for_work or not worker.is_busy:
            said += self._respond(worker)
        return said

    def _respond(self, worker: Worker) -> list[Event]:
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

    def _reply(self, address: Address, m: Reply) -> list[Event | Send]:
        worker = self._crew.speaker(address)
        tail, note = take_report(m.tail)
        held = worker.find(m.client, tail) if worker is not None else None
        if worker is None or held is None:
            return [self._rejected(address, "a reply that nobody waits for")]
        kind = _KINDS.get(_text((note or {}).get("kind")), ReplyKind.FINAL)
        fault = read_fault(note) if note is not None and note["kind"] == "fault" else None
        body = Body(NAME, (*held.mark[1], *tail[tail.index(b"") :]))
        said: list[Event | Send] = [
            ReplyReceived(worker.peer, held.job, kind, body, fault, held.attempt)
        ]
        if kind is ReplyKind.FINAL:
            said += self._done(address, worker, held)
        return said

    def _done(self, address: Address, worker: Worker, held: Held) -> list[Event]:
        worker.drop(held.job)
        return self._respond(worker) if address in self._crew.present else []

    def _request(self, address: Address, m: Request) -> list[Event | Send]:
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

    def _submitted(self, address: Address, m: Request, note: Note | None) -> list[Event | Send]:
        """Take a request in as a new job, of its sender or of the client it names."""
        said = note or {}
        client = self._peer(m.client or address)
        job = JobId(_text(said.get("job")) or self._ids())
        service = service_name(m.service)
        self._answers.expect(job, client, Asking(metadata_of(m.tail), note is not None))
        return [
            JobSubmitted(
                job,
                client,
                service,
                Body(NAME, m.tail),
                target=_target(said.get("target")),
                terms=self._terms(service, said),
                task=_text(said.get("task")),
            )
        ]

    def _terms(self, service: ServiceName, note: Note) -> Terms:
        terms = self._settings.services.get(service, self._settings.terms)
        timeout, priority = _number(note.get("timeout"), None), note.get("priority")
        if timeout is not None:
            terms = replace(terms, timeout=timeout)
        if type(priority) is int and priority and abs(priority) < 2**31:
            terms = replace(terms, priority=priority)
        return terms

    def _handed_over(
        self, address: Address, worker: Worker, held: Held, m: Request
    ) -> list[Event | Send]:
        """Pass a worker's job on. The very same request to its own service is a job unrun."""
        service, body = service_name(m.service), Body(NAME, m.tail)
        event: Event = JobForwarded(worker.peer, held.job, service, body)
        if service == held.service and m.tail == held.body.parts:
            fault = Fault(FaultCode.HANDED_BACK, "the worker asked for the same again")
            event = ReplyReceived(
                worker.peer, held.job, ReplyKind.FINAL, fault=fault, attempt=held.attempt
            )
        return [event, *self._done(address, worker, held)]

    def _question(self, address: Address, m: Request, note: Note) -> list[Event | Send]:
        """Take what a client of ours asks about a job that it names."""
        job, client = JobId(_text(note.get("job"))), self._peer(address)
        asked = _QUESTIONS.get(_text(note.get("ask")))
        if asked is None or not job:
            raise MalformedMessage("a note asks for nothing that is known, or names no job")
        if asked is Asked.INPUT:
            worker = _text(note.get("worker"))
            body = Body(NAME, (b"", *m.tail[m.tail.index(b"") + 1 :]))
            return [InputReceived(job, client, body, WorkerName(worker) if worker else None)]
        self._answers.expect_status(job, client, asked, m.tail)
        if asked is Asked.CANCEL:
            return [JobCancelled(job, client)]
        return [ResultRequested(job, client)]

    def _rejected(self, address: Address, words: str) -> Noted:
        return Noted(Kind.REJECTED, self._peer(address), words, dialect=NAME)

    def _peer(self, address: Address) -> PeerId:
        return peer_id(self.link, text_of(address))

    # --- what the broker says ---------------------------------------------------------------

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Put one effect on a peer of this link into messages."""
        write = _RENDERERS.get(type(effect))
        return write(self, effect, now) if write is not None else []

    def _work(self, effect: SendWork, now: float) -> list[Send]:
        address = raw_of(name_of(effect.worker))
        worker = self._crew.join(address, effect.worker)
        # Even if it cannot be dressed: the core counted it, so the worker's next ping frees it.
        worker.is_free = False
        body = redress_call(self._wardrobe, effect.body, NAME)
        tail = body.parts
        if body is not effect.body:
            tail = (write_note(_foreign(effect, now)), *tail)
        client = self._client_frame(effect.client)
        mark = (client, metadata_of(tail))
        worker.hold(Held(effect.job, effect.attempt, effect.service, Body(NAME, tail), mark))
        return [self._request_to(address, worker, client, tail)]

    def _request_to(self, address: Address, worker: Worker, client: bytes, tail: Tail) -> Send:
        request = Request(worker.service, client, tail, self._width(address))
        return Send(address, encode(request))

    def _client_frame(self, client: PeerId) -> bytes:
        """Name a client to a worker: its address, or where it is if it is not of this link."""
        return raw_of(name_of(client)) if link_of(client) == self.link else client.encode()

    def _input(self, effect: SendInput, now: float) -> list[Send]:
        data = redress_answer(self._wardrobe, effect.body, NAME).parts
        return self._to_holder(effect, {"kind": "input"}, data, must=True)

    def _cancel(self, effect: SendCancel, now: float) -> list[Send]:
        return self._to_holder(effect, {"kind": "cancel"}, (b"",), must=False)

    def _to_holder(
        self, effect: SendInput | SendCancel, note: Note, data: Tail, must: bool
    ) -> list[Send]:
        """Tell a worker of ours something about a job it holds; others have no ear for it."""
        address = raw_of(name_of(effect.worker))
        worker = self._crew.present.get(address)
        held = worker.holding(effect.job) if worker is not None else None
        if worker is None or held is None or not worker.reads_notes:
            if must:
                raise Unmappable("DCP has no way to give input to a running job")
            return []
        client, metadata = held.mark
        tail = with_report((*metadata, *data), note)
        return [self._request_to(address, worker, client, tail)]

    def _answer(self, effect: SendReply, now: float) -> list[Send]:
        return self._to_client(effect.client, self._answers.reply(effect))

    def _status(self, effect: SendStatus, now: float) -> list[Send]:
        return self._to_client(effect.client, self._answers.status(effect))

    def _to_client(self, client: PeerId, tail: Tail | None) -> list[Send]:
        if tail is None:
            return []
        address = raw_of(name_of(client))
        return [Send(address, encode(Reply(address, tail, self._width(address))))]

    def _beat(self, effect: SendBeat, now: float) -> list[Send]:
        """Look whether a worker that computes in silence is still connected.

        The text has no beats from the broker, but every worker must bear a pong, and a ROUTER
        tells when there is nobody to take it.
        """
        address = raw_of(name_of(effect.worker))
        worker = self._crew.present.get(address)
        patience = self._settings.beat_every * self._settings.missed_allowed
        if worker is None or not worker.is_busy or now - worker.seen_at < patience:
            return []
        return [self._send(address, Pong)]

    def _dismiss(self, effect: Dismiss, now: float) -> list[Send]:
        """Ask a worker to register again, unless it said good-bye."""
        address = raw_of(name_of(effect.peer))
        worker = self._crew.speaker(address)
        self._crew.part(address)
        if worker is None or worker.has_left:
            return []
        return [self._send(address, Reconnect)]

    def _send(self, address: Address, kind: type[Pong | Reconnect]) -> Send:
        return Send(address, encode(kind(self._width(address))))

    def _width(self, address: Address) -> int:
        return self._widths.get(address, self._settings.width)

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


def _foreign(effect: SendWork, now: float) -> Note:
    """Say about a request of another dialect what a DCP client would have said itself."""
    note: Note = {"job": effect.job}
    if effect.run_until is not None:
        note["timeout"] = max(0.0, round(effect.run_until - now, 3))
    return note


def _text(said: object) -> str:
    """Read a name or id; what is no short printable text counts as not said."""
    if isinstance(said, str) and len(said) <= _LONGEST_NAME and said.isprintable():
        return said
    return ""


def _number(said: object, default: Any) -> Any:
    return said if isinstance(said, int | float) and 0 < said < 1e9 else default


def _credit(said: object) -> int:
    return min(max(said, 1), _MOST_CREDIT) if type(said) is int else 1


def _target(said: object) -> Target:
    if not said:
        return ANY
    try:
        return parse_target(_text(said))
    except ValueError as trouble:
        raise MalformedMessage(str(trouble)) from None


_QUESTIONS: Final = {asked.value: asked for asked in Asked}
_RECEIVERS: Final[dict[type[Message], Callable[[BrokerSide, Address, Any], list[Event | Send]]]] = {
    Registration: BrokerSide._registration,
    Ping: BrokerSide._ping,
    Pong: BrokerSide._pong,
    Request: BrokerSide._request,
    Reply: BrokerSide._reply,
    Reconnect: BrokerSide._reconnect,
}
_RENDERERS: Final[dict[type, Callable[[BrokerSide, Any, float], list[Send]]]] = {
    SendWork: BrokerSide._work,
    SendInput: BrokerSide._input,
    SendCancel: BrokerSide._cancel,
    SendReply: BrokerSide._answer,
    SendStatus: BrokerSide._status,
    SendBeat: BrokerSide._beat,
    Dismiss: BrokerSide._dismiss,
}
