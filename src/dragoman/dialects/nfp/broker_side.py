"""The broker's end of an NFP link: one ROUTER, clients and workers on the same socket.

This module routes messages and effects. `requests` decodes what clients send, `replies` and
`statuses` encode what they receive, `workers` handles workers. This module itself answers OPEN,
management and inventory calls (MMI), and event subscriptions.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from dragoman.core.effects import (
    Dismiss,
    Effect,
    SendBeat,
    SendCancel,
    SendInput,
    SendPoll,
    SendReply,
    SendStatus,
    SendWork,
)
from dragoman.core.events import Event, JobSubmitted, Noted
from dragoman.dialects.base import (
    Address,
    BodyCodecs,
    Frames,
    MalformedMessage,
    Send,
    Subscribed,
    record_object,
    topic_of,
)
from dragoman.dialects.nfp import bodies, wire
from dragoman.dialects.nfp.body_codec import NAME, NfpBodyCodec
from dragoman.dialects.nfp.client_jobs import ClientJobs
from dragoman.dialects.nfp.peers import Peer, Peers, read_name
from dragoman.dialects.nfp.replies import NfpReplies, managed
from dragoman.dialects.nfp.requests import NfpRequests, refuse
from dragoman.dialects.nfp.settings import EVENTS, INVENTORY, MANAGEMENT, NfpSettings
from dragoman.dialects.nfp.statuses import NfpStatuses
from dragoman.dialects.nfp.workers import NfpWorkers
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, ServiceName, peer_id, text_of
from dragoman.model.record import Kind, Record
from dragoman.model.target import ANY
from dragoman.model.terms import Terms

Received = Sequence[Event | Send | Subscribed]

_SERVICES: Final = {name.encode(): name for name in (MANAGEMENT, INVENTORY)}
_EVENTS: Final = EVENTS.encode()
#: A management call is recorded like any job, but does not wait for the disk: people need it most
#: when the disk fails. It is not repeated after a crash.
MANAGED: Final = Terms(patience=10.0, timeout=60.0, max_attempts=1, strict=False)


class NfpBrokerSide:
    """One NFP link of the broker."""

    def __init__(
        self,
        link: str = NAME,
        *,
        codecs: BodyCodecs | None = None,
        settings: NfpSettings | None = None,
    ) -> None:
        self.link = link
        self.settings = settings or NfpSettings()
        self._hello = bodies.to_json(
            {
                "agent": "dragoman",
                "push": True,
                "can_cancel": True,
                "beat_every": self.settings.beat_every,
                "hold": self.settings.hold,
            }
        )
        codecs = codecs or {NAME: NfpBodyCodec()}
        self.peers = Peers(link, self.settings.remembered_peers)
        self.client_jobs = ClientJobs(self.settings)
        self.workers = NfpWorkers(self.peers, codecs, self.settings)
        self.requests = NfpRequests(self.client_jobs, self.settings)
        self.replies = NfpReplies(self.peers, self.workers, self.client_jobs, codecs)
        self.statuses = NfpStatuses(self.peers, self.workers, self.client_jobs, codecs)
        self._handlers: dict[type, Callable[[Peer, Any, float], Received]] = {
            wire.NfpRequest: self._request,
            wire.UnknownCommand: self._unsupported,
            wire.NfpReport: self.workers.report,
            wire.KeepAlive: self.workers.keepalive,
            wire.NfpReady: self.workers.ready,
            wire.NfpDisconnect: self.workers.disconnect,
            wire.Open: self._open,
        }
        self._renderers: dict[type, Callable[[Any, float], list[Send]]] = {
            SendWork: self.workers.work,
            SendReply: self.replies.render,
            SendStatus: self.statuses.render,
            SendBeat: lambda effect, now: self.workers.beat(effect.worker),
            SendInput: self.workers.give_input,
            SendCancel: self.workers.cancel,
            SendPoll: self.workers.poll,
            Dismiss: lambda effect, now: self.workers.dismiss(effect.peer, effect.reason),
        }

    def receive(self, address: Address, frames: Frames, now: float) -> Received:
        """Decode one message."""
        message = wire.decode(frames)
        handle = self._handlers.get(type(message))
        if handle is None or frames[1] == wire.BROKER:
            raise MalformedMessage("a message that only a broker sends")
        peer = self.peers.touch(address)
        if not isinstance(message, wire.UnknownCommand):
            peer.is_binary = message.is_binary
        return handle(peer, message, now)

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Encode one effect for a peer of this link."""
        return self._renderers[type(effect)](effect, now)

    def advance(self, now: float) -> list[Event | Send]:
        """Poll workers for jobs whose poll is due."""
        return [*self.workers.advance(now)]

    def next_deadline(self) -> float | None:
        """Return when the next poll is due."""
        return self.workers.assignments.next_deadline()

    def validate(self) -> None:
        """Assert that every table is within its bound and the indexes agree."""
        self.workers.assignments.validate()
        workers = self.workers
        assert {w.name for w in workers.workers.values()} == set(workers.by_name)
        workers.validate()
        assert len(self.peers) <= self.peers.bound
        jobs = self.client_jobs
        for bounded in (jobs.open, jobs.gets, jobs.posts, workers.announcements):
            assert len(bounded) <= bounded.bound

    def deny(
        self,
        address: Address,
        frames: Frames,
        sends: list[Send] | None,
        fault: Fault,
        now: float,
    ) -> list[Send]:
        """Refuse a subscription, or a request in another peer's name. The core refuses jobs."""
        message, peer = wire.decode(frames), self.peers.of(peer_id(self.link, text_of(address)))
        is_for_us = isinstance(message, wire.NfpRequest) and message.service == _EVENTS
        if isinstance(message, wire.NfpRequest) and (sends is None or is_for_us):
            return [answer for answer in refuse(peer, message, fault) if isinstance(answer, Send)]
        # A refused READY is not confirmed; the core's answer is DISCONNECT.
        return [] if isinstance(message, wire.NfpReady) else sends or []

    # --- OPEN -----------------------------------------------------------------------------------

    def _open(self, peer: Peer, message: wire.Open, now: float) -> Received:
        """Store what a peer declares, and declare ourselves. OPEN counts as a heartbeat."""
        peer.declared = bodies.read_open(message.body)
        hello = wire.encode(wire.Open(wire.BROKER, self._hello, peer.is_binary))
        return [Send(peer.address, hello), *self.workers.heard(peer, now)]

    # --- clients --------------------------------------------------------------------------------

    def _request(self, peer: Peer, message: wire.NfpRequest, now: float) -> Received:
        if message.service in _SERVICES:
            return self._managed(peer, message)
        if message.command == wire.MMI:
            text = f"send MMI to {MANAGEMENT}, and POST to workers"
            answer = refuse(peer, message, Fault(FaultCode.BAD_REQUEST, text))
            return answer if peer.is_synchronous else [_as_mmi(answer[0]), *answer]
        if message.service == _EVENTS:
            return self._subscription(peer, message)
        return self.requests.take(peer, message)

    def _unsupported(self, peer: Peer, message: wire.UnknownCommand, now: float) -> Received:
        text = f"the command {message.command[:16]!r} is unknown"
        return refuse(peer, message, Fault(FaultCode.BAD_REQUEST, text))

    def _managed(self, peer: Peer, message: wire.NfpRequest) -> Received:
        """Submit a management call, whatever its command, as a job of a built-in service."""
        try:
            job = JobId(read_name(message.uuid, "job id", self.settings.max_name))
            head = bodies.read_post(message.body)
        except (MalformedMessage, ValueError) as error:
            fault = Fault(FaultCode.BAD_REQUEST, str(error))
            refused = Noted(
                Kind.REJECTED, peer.id, f"{message.command} refused: {error}", dialect=NAME
            )
            return [*managed(peer, message.service, message.uuid, None, fault), refused]
        service = ServiceName(_SERVICES[message.service])
        body = Body(NAME, (message.body,))
        return [JobSubmitted(job, peer.id, service, body, ANY, MANAGED, head.task)]

    # --- events ---------------------------------------------------------------------------------

    def _subscription(self, peer: Peer, message: wire.NfpRequest) -> Received:
        """Start a subscription (GET), or end it (DELETE)."""
        try:
            tag = read_name(message.uuid, "subscription id", self.settings.max_name)
            wanted = bodies.read_subscription(message.body)
            if message.command not in (wire.GET, wire.DELETE):
                raise ValueError(f"subscribe with GET, not {message.command}")
            if peer.is_synchronous:
                raise ValueError('events are pushed: declare {"push": true} in OPEN first')
        except (MalformedMessage, ValueError) as error:
            return refuse(peer, message, Fault(FaultCode.BAD_REQUEST, str(error)))
        topics = tuple(wanted.topics) if message.command == wire.GET else ()
        status = {"status": "SUBSCRIBED" if topics else "ENDED", "topics": topics}
        body = bodies.to_json(status | {"after": wanted.after})
        reply = wire.NfpReply(wire.RESPONSE, _EVENTS, message.uuid, b"200", body, peer.is_binary)
        return [
            Send(peer.address, wire.encode(reply)),
            Subscribed(peer.id, topics, wanted.after, tag),
        ]

    def render_event(
        self, subscription: Subscribed, record: Record, body: Body | None
    ) -> list[Send]:
        """Encode one record for a subscriber: a worker's event, or an event of the broker."""
        peer = self.peers.of(subscription.peer)
        content = _event_content(record, body)
        event = bodies.subscribed_event(record.seq, record.at, topic_of(record), content)
        uuid = subscription.tag.encode()
        reply = wire.NfpReply(wire.EVENT, _EVENTS, uuid, b"200", event, peer.is_binary)
        return [Send(peer.address, wire.encode(reply))]


def _event_content(record: Record, body: Body | None) -> object:
    """Return the publisher's own event, or the record without its empty fields."""
    if record.kind == Kind.PUBLISHED:
        return bodies.raw_json(body.parts[0]) if body and body.parts else None
    return record_object(record)


def _as_mmi(answer: Event | Send) -> Send:
    """Copy an answer under the command that MMI callers wait for."""
    assert isinstance(answer, Send)
    reply = wire.decode(answer.frames)
    assert isinstance(reply, wire.NfpReply)
    again = wire.NfpReply(
        wire.MMI, reply.service, reply.uuid, reply.status, reply.body, reply.is_binary
    )
    return Send(answer.address, wire.encode(again))
