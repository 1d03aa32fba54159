"""The broker's end of an NFP link: one ROUTER, clients and workers on the same socket.

This module only sorts. What clients say is for `requests`, what they are told for `replies` and
`statuses`; workers are the matter of `worker_desk`. Here are the services that the broker itself
answers for: introductions (OPEN), management and inventory (MMI), and the offer of events.
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

Heard = Sequence[Event | Send | Subscribed]

_SERVICES: Final = {name.encode(): name for name in (MANAGEMENT, INVENTORY)}
_EVENTS: Final = EVENTS.encode()
#: A question to the broker itself is recorded like any job, but does not wait for the disk: people
#: ask it most when the disk is in trouble. Nor is it asked a second time after a crash.
MANAGED: Final = Terms(patience=10.0, timeout=60.0, max_attempts=1, strict=False)


class NfpBrokerSide:
    """NFP as the broker speaks it."""

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
        self.memory = ClientJobs(self.settings)
        self.workers = NfpWorkers(self.peers, codecs, self.settings)
        self.requests = NfpRequests(self.memory, self.settings)
        self.replies = NfpReplies(self.peers, self.workers, self.memory, codecs)
        self.statuses = NfpStatuses(self.peers, self.workers, self.memory, codecs)
        self._takers: dict[type, Callable[[Peer, Any, float], Heard]] = {
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
            Dismiss: lambda effect, now: self.workers.dismiss(effect.peer),
        }

    def receive(self, address: Address, frames: Frames, now: float) -> Heard:
        """Take one message in."""
        message = wire.decode(frames)
        if type(message) not in self._takers or frames[1] == wire.BROKER:
            raise MalformedMessage("a broker's message came to a broker")
        peer = self.peers.heard(address)
        if not isinstance(message, wire.UnknownCommand):
            peer.is_binary = message.is_binary
        return self._takers[type(message)](peer, message, now)

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Put one effect on a peer of this link into messages."""
        return self._renderers[type(effect)](effect, now)

    def advance(self, now: float) -> list[Event | Send]:
        """Ask workers about jobs that have been silent for long."""
        return [*self.workers.advance(now)]

    def next_deadline(self) -> float | None:
        """Say when a worker is to be asked next."""
        return self.workers.assignments.next_deadline()

    def validate(self) -> None:
        """Assert that every memory is within its bound and the indexes agree."""
        self.workers.assignments.validate()
        workers = self.workers
        assert {w.name for w in workers.workers.values()} == set(workers.by_name)
        assert len(self.peers) <= self.peers.bound
        for bounded in (self.memory.told, self.memory.asked, workers.announcements):
            assert len(bounded) <= bounded.bound

    def deny(
        self,
        address: Address,
        frames: Frames,
        sends: list[Send] | None,
        fault: Fault,
        now: float,
    ) -> list[Send]:
        """Refuse a subscription, or whatever came in another's name; jobs are the core's answer."""
        message, peer = wire.decode(frames), self.peers.of(peer_id(self.link, text_of(address)))
        is_for_us = isinstance(message, wire.NfpRequest) and message.service == _EVENTS
        if isinstance(message, wire.NfpRequest) and (sends is None or is_for_us):
            return [said for said in refuse(peer, message, fault) if isinstance(said, Send)]
        return sends or []

    # --- introductions --------------------------------------------------------------------------

    def _open(self, peer: Peer, message: wire.Open, now: float) -> Heard:
        """Hear what a peer declares of itself, and say who we are."""
        peer.declared = bodies.read_open(message.body)
        return [
            Send(peer.address, wire.encode(wire.Open(wire.BROKER, self._hello, peer.is_binary)))
        ]

    # --- clients --------------------------------------------------------------------------------

    def _request(self, peer: Peer, message: wire.NfpRequest, now: float) -> Heard:
        if message.service in _SERVICES:
            return self._managed(peer, message)
        if message.command == wire.MMI:
            words = f"management is asked of {MANAGEMENT}, workers are asked with POST"
            answer = refuse(peer, message, Fault(FaultCode.BAD_REQUEST, words))
            return [_as_mmi(answer[0]), *answer]
        if message.service == _EVENTS:
            return self._subscription(peer, message)
        return self.requests.take(peer, message)

    def _unsupported(self, peer: Peer, message: wire.UnknownCommand, now: float) -> Heard:
        words = f"the command {message.command[:16]!r} does not exist"
        return refuse(peer, message, Fault(FaultCode.BAD_REQUEST, words))

    def _managed(self, peer: Peer, message: wire.NfpRequest) -> Heard:
        """Take a management call in, whatever its command: a job of the broker's own service."""
        try:
            job = JobId(read_name(message.uuid, "job id", self.settings.max_name))
            head = bodies.read_post(message.body)
        except (MalformedMessage, ValueError) as why:
            fault = Fault(FaultCode.BAD_REQUEST, str(why))
            refused = Noted(
                Kind.REJECTED, peer.id, f"{message.command} refused: {why}", dialect=NAME
            )
            return [*managed(peer, message.service, message.uuid, None, fault), refused]
        service = ServiceName(_SERVICES[message.service])
        body = Body(NAME, (message.body,))
        return [JobSubmitted(job, peer.id, service, body, ANY, MANAGED, head.task)]

    # --- events ---------------------------------------------------------------------------------

    def _subscription(self, peer: Peer, message: wire.NfpRequest) -> Heard:
        """Take a subscription in (GET), or end it (DELETE)."""
        try:
            tag = read_name(message.uuid, "subscription id", self.settings.max_name)
            wanted = bodies.read_subscription(message.body)
            if message.command not in (wire.GET, wire.DELETE):
                raise ValueError(f"events are asked for with GET, not {message.command}")
        except (MalformedMessage, ValueError) as why:
            return refuse(peer, message, Fault(FaultCode.BAD_REQUEST, str(why)))
        topics = tuple(wanted.topics) if message.command == wire.GET else ()
        said = {"status": "SUBSCRIBED" if topics else "ENDED", "topics": topics}
        body = bodies.to_json(said | {"after": wanted.after})
        reply = wire.NfpReply(wire.RESPONSE, _EVENTS, message.uuid, b"200", body, peer.is_binary)
        return [
            Send(peer.address, wire.encode(reply)),
            Subscribed(peer.id, topics, wanted.after, tag),
        ]

    def render_event(
        self, subscription: Subscribed, record: Record, body: Body | None
    ) -> list[Send]:
        """Offer one record: a worker's own event, or what the broker did."""
        peer = self.peers.of(subscription.peer)
        said = bodies.offered(record.seq, record.at, topic_of(record), _told_of(record, body))
        uuid = subscription.tag.encode()
        reply = wire.NfpReply(wire.EVENT, _EVENTS, uuid, b"200", said, peer.is_binary)
        return [Send(peer.address, wire.encode(reply))]


def _told_of(record: Record, body: Body | None) -> object:
    """Return what an event says: the publisher's words, or the record without its empty fields."""
    if record.kind == Kind.PUBLISHED:
        return bodies.raw_json(body.parts[0]) if body and body.parts else None
    return bodies.record_object(record)


def _as_mmi(answer: Event | Send) -> Send:
    """Give an answer again under the command that MMI callers wait for."""
    assert isinstance(answer, Send)
    reply = wire.decode(answer.frames)
    assert isinstance(reply, wire.NfpReply)
    again = wire.NfpReply(
        wire.MMI, reply.service, reply.uuid, reply.status, reply.body, reply.is_binary
    )
    return Send(answer.address, wire.encode(again))
