"""A worker as a compute node: combines session, data plane, executions, logs and discovery.

Frames are `[subject, body, headers, reply]` in both directions. The SDK subscribes to
`subscriptions`, then sends what `join` returns, and calls `beat` every `beat_every` seconds. Time
comes from `clock`. A message with an empty subject means that the NATS connection is new.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.compute import PUBLISHERS, Compute, resources_of
from dragoman.dialects.ncl.dataplane import Publisher
from dragoman.dialects.ncl.discovery import PREFIX, Discovery
from dragoman.dialects.ncl.log_producer import LogProducer
from dragoman.dialects.ncl.messages import HandshakeResponse
from dragoman.dialects.ncl.models import (
    BuildVersionInfo,
    ComputeInfo,
    NodeInfo,
    WireObject,
)
from dragoman.dialects.ncl.nodes import PROTOCOL, SERVICE_LABEL, SLOTS_LABEL, VERSION_LABEL
from dragoman.dialects.ncl.session import CONNECTED, NodeSession
from dragoman.dialects.ncl.settings import OVERHEAD, ComputeSettings
from dragoman.dialects.ncl.store import NodeStore
from dragoman.dialects.peer_sides import Alive, Assigned, SendNow, Unsupported, WorkerNotice
from dragoman.model.capacity import Capacity
from dragoman.model.content import Answer, Call

_ACK: Final = b"{}"
_GIB: Final = 1024**3


class NclWorkerSide:
    """A worker's side of NCL."""

    def __init__(
        self,
        node: str,
        services: Iterable[str],
        *,
        ids: Callable[[], str],
        clock: Callable[[], float],
        slots: int = 1,
        capacity: Capacity | None = None,
        labels: Mapping[str, str] | None = None,
        version: str = "0.1.0",
        settings: ComputeSettings | None = None,
        store: NodeStore | None = None,
    ) -> None:
        if not wire.is_node_id(node):
            raise ValueError(f"{node!r} cannot be a node id: no blanks, dots, stars or '>'")
        self.name = node
        self._services = tuple(services)
        self._clock = clock
        self._version = version
        self._capacity = capacity or Capacity(float(slots), slots * _GIB, slots * 10 * _GIB)
        #: Labels of the node. A change is sent to the orchestrator.
        self.labels = dict(labels or {})
        self.settings = settings or ComputeSettings()
        self.store = store or NodeStore(remember=self.settings.remember)
        # Contains the node id, so that NATS permissions can keep other nodes out.
        self._inbox = f"_INBOX.{node}.{wire.inbox_token(ids())}"
        now = clock()
        self._session = NodeSession(node, self.settings, self.describe, now)
        s = self.settings
        self._compute = Compute(
            self._services,
            slots,
            self._capacity,
            self.store,
            self._publish,
            s.queue_capacity,
            s.max_payload - OVERHEAD,
        )
        self._publisher = Publisher(s.ack_wait, s.max_pending, s.retry_base, s.retry_max)
        self._log_producer = LogProducer(node, self._inbox, self.settings, self._compute.find)
        self._discovery = Discovery(node, self._services, version, now)
        self._received = self.store.received
        self._opened = 0
        self._checkpoint_at = now + s.checkpoint_interval
        self.beat_every = s.tick
        self.hold: float | None = s.heartbeat_interval * s.heartbeat_miss_factor
        #: Reasons why the last messages could not be read; newest last, bounded.
        self.unreadable: list[str] = []
        self._resumed = self._resume(now)

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The subjects that the SDK subscribes to before `join`."""
        return (
            wire.compute_subject(self.name, wire.IN_MSGS),
            wire.logs_subject(self.name),
            f"{self._inbox}.*",
            *self._discovery.subscriptions,
        )

    @property
    def slots(self) -> int:
        """How many executions run at once. A change is sent to the orchestrator."""
        return self._compute.slots

    @slots.setter
    def slots(self, slots: int) -> None:
        self._compute.slots = slots

    @property
    def is_joined(self) -> bool:
        """Return whether the orchestrator has accepted this node's handshake."""
        return self.is_connected

    @property
    def is_connected(self) -> bool:
        """Whether the orchestrator has accepted this node."""
        return self._session.state == CONNECTED

    @property
    def refusal(self) -> str:
        """Why the orchestrator refused this node's handshake; empty if it did not."""
        return self._session.refusal

    @property
    def last_error(self) -> str:
        """Why there is no session or why the last request failed; empty if neither."""
        return self._session.last_error

    def describe(self) -> NodeInfo:
        """Return the current node info."""
        names = ",".join(self._services)
        own_labels = {
            "name": self.name,
            SERVICE_LABEL: names,
            SLOTS_LABEL: str(self._compute.slots),
            VERSION_LABEL: self._version,
        }
        maximum = resources_of(self._capacity)
        return NodeInfo(
            self.name,
            "Compute",
            {**self.labels, **own_labels},
            [PROTOCOL],
            ComputeInfo(
                ExecutionEngines=[name.lower() for name in self._services],
                Publishers=[name for name in PUBLISHERS if name],
                StorageSources=["inline"],
                MaxCapacity=maximum,
                QueueCapacity=self._compute.queue_used,
                AvailableCapacity=self._compute.free,
                MaxJobRequirements=maximum,
                RunningExecutions=self._compute.running,
                EnqueuedExecutions=self._compute.enqueued,
            ),
            # Empty on purpose: a real orchestrator gives no work to a node whose version is below
            # 1.0.4, and accepts an unknown (empty) one. Ours is in a label.
            BuildVersionInfo(),
        )

    # --- in -------------------------------------------------------------------------------------

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Handle one message. An unreadable one is noted and ignored."""
        try:
            subject, body, _, reply = frames[0].decode(), frames[1], frames[2], frames[3].decode()
        except (UnicodeDecodeError, IndexError):
            return self._note_unreadable("frames are not subject, body, headers and reply")
        now = self._clock()
        if not subject:
            return self._reconnected(now)
        if subject == wire.compute_subject(self.name, wire.IN_MSGS):
            return self._data(body, reply, now)
        if subject.startswith(self._inbox + "."):
            return self._answered(subject[len(self._inbox) + 1 :], body, now)
        if subject == wire.logs_subject(self.name):
            return _replies(self._log_producer.receive_request(body, reply, now))
        if subject.startswith(PREFIX + "."):
            answers = self._discovery.answers(subject, self._compute.runs, self._compute.failures)
            return _replies([_bare(reply, a) for a in answers] if reply else [])
        return self._note_unreadable(f"no handler for subject {subject}")

    def _data(self, body: bytes, reply: str, now: float) -> list[WorkerNotice]:
        """Store, then ack. Never refuse on the wire: a refusal can stop a real sender for good."""
        notices: list[WorkerNotice] = []
        try:
            message = wire.decode(body)
            if self._compute.handles(message.payload):
                notices = self._compute.receive(message.payload, now)
                # Outside a session, a sequence number says nothing about earlier messages.
                if self.is_connected:
                    self._received = max(self._received, message.seq)
            else:
                self._note_unreadable(f"{type(message.payload).__name__} is no message to a node")
        except MalformedMessage as error:
            self._note_unreadable(str(error))
        lines = [
            frames for notice in notices for frames in self._log_producer.on_notice(notice, now)
        ]
        ack = [SendNow(_bare(reply, _ACK))] if reply else []
        return [*ack, *_replies([*self._pump(now), *lines]), *notices]

    def _answered(self, token: str, body: bytes, now: float) -> list[WorkerNotice]:
        if token.startswith("d"):
            self._acked(token[1:], body, now)
            return [Alive(), *_replies(self._pump(now))]
        if token.startswith("b"):
            return _replies(self._log_producer.receive_heartbeat_reply(token, body))
        response = self._session.answered(token, body, now)
        if response is None:
            if not self.is_connected:
                self._publisher.close()
            # An empty body means "no responders": that is no sign of life.
            return [Alive()] if self.is_connected and body else []
        self._open(response)
        # The first heartbeat follows the handshake at once, as the document says.
        return [Alive(), *_replies(self.beat()), *self._take_resumed()]

    def _open(self, response: HandshakeResponse) -> None:
        """Open the data plane at the orchestrator's position."""
        self._opened += 1
        self._received = response.LastOrchestratorSeqNum
        self._publisher.open()

    def _acked(self, token: str, body: bytes, now: float) -> None:
        session, _, seq = token.partition("-")
        if session != str(self._opened) or not seq.isdigit():
            return
        if wire.is_ack(body):
            self._publisher.ack(int(seq))
        else:
            self._publisher.fail(now)

    def _reconnected(self, now: float) -> list[WorkerNotice]:
        """Send a heartbeat on a new NATS connection: the orchestrator may have restarted too."""
        self._publisher.replay()
        self._session.retry_now(now)
        return _replies(self.beat())

    def _note_unreadable(self, notices: str) -> list[WorkerNotice]:
        self.unreadable = [*self.unreadable[-99:], notices]
        return []

    # --- out ------------------------------------------------------------------------------------

    def _publish(self, payload: WireObject) -> None:
        self._publisher.put(self.store.add_message(payload), payload)

    def _pump(self, now: float) -> list[Frames]:
        subject = wire.compute_subject(self.name, wire.OUT_MSGS)
        out: list[Frames] = []
        for item in self._publisher.pump(now):
            pairs = wire.data_metadata(item.payload, self.name, now, item.seq, "")
            reply = f"{self._inbox}.d{self._opened}-{item.seq}"
            out.append([subject.encode(), *wire.frames(item.payload, pairs, reply)])
        return out

    def _requests(self, requests: list[tuple[str, WireObject]], now: float) -> list[Frames]:
        subject = wire.compute_subject(self.name, wire.CTRL).encode()
        return [
            [
                subject,
                *wire.frames(
                    payload, wire.metadata(payload, self.name, now), f"{self._inbox}.{token}"
                ),
            ]
            for token, payload in requests
        ]

    def join(self) -> list[Frames]:
        """Return a handshake; called for every new connection."""
        now = self._clock()
        self._publisher.close()
        return self._requests(self._session.join(self._received, now), now)

    def beat(self) -> list[Frames]:
        """Return whatever is due: heartbeats, handshakes, updates, messages, log heartbeats."""
        now = self._clock()
        compute = self._compute
        requests = self._session.tick(self._received, compute.free, compute.queue_used, now)
        if not self.is_connected:
            self._publisher.close()
        self._publisher.advance(now)
        if now >= self._checkpoint_at:
            self.checkpoint()
        return [*self._requests(requests, now), *self._pump(now), *self._log_producer.tick(now)]

    def checkpoint(self) -> None:
        """Store the positions of both directions."""
        self._checkpoint_at = self._clock() + self.settings.checkpoint_interval
        self.store.save_progress(self._received, self._publisher.settled)

    def leave(self) -> list[Frames]:
        """Return the last messages and the shutdown notice, after a final checkpoint."""
        now = self._clock()
        last = self._pump(now)
        self.checkpoint()
        notice_frames = self._requests(self._session.leave(self._received, now), now)
        return [*last, *self._log_producer.close_all(), *notice_frames]

    # --- work -----------------------------------------------------------------------------------

    def take(self, ticket: str) -> list[Frames]:
        """Record that an execution runs. NCL has no message for that."""
        self._compute.begin(ticket)
        return []

    def progress(self, ticket: str, event: object) -> list[Frames]:
        """Send a progress report as a log line to all followers."""
        return self._log_producer.progress(ticket, event)

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Send a stream chunk as a log line to all followers."""
        return self._log_producer.chunk(ticket, data)

    def output(self, ticket: str, text: str, is_error: bool) -> list[Frames]:
        """Send what a task prints to its log streams, and keep its beginning for the result."""
        self._compute.output(ticket, text, is_error)
        return self._log_producer.output(ticket, text, is_error)

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result. It is kept until the orchestrator has acked it."""
        now = self._clock()
        self._compute.finish(ticket, answer, now)
        return [*self._log_producer.close_streams(ticket), *self._pump(now)]

    def hand_back(self, ticket: str) -> list[Frames]:
        """Hand a job back unrun."""
        now = self._clock()
        self._compute.hand_back(ticket, now)
        return [*self._log_producer.close_streams(ticket), *self._pump(now)]

    def ask_input(self, ticket: str, request: str, question: object) -> list[Frames]:
        """Raise `Unsupported`: NCL has no message for it."""
        raise Unsupported("NCL cannot ask a client for input; use an nfp or http worker")

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Raise `Unsupported`: NCL has no message for it."""
        raise Unsupported(
            "NCL cannot forward a job; finish it and submit the next one from the client"
        )

    def publish(self, topic: str, event: object) -> list[Frames]:
        """Raise `Unsupported`: NCL has no message for it."""
        raise Unsupported("NCL cannot publish events; report progress of a job instead")

    # --- restart --------------------------------------------------------------------------------

    def _resume(self, now: float) -> list[Assigned]:
        """After a restart, queue unacked messages and restart or fail interrupted work."""
        self._publisher.last = self.store.acked
        for seq, payload in self.store.out.items():
            self._publisher.put(seq, payload)
        return self._compute.restart(now)

    def _take_resumed(self) -> list[Assigned]:
        resumed, self._resumed = self._resumed, []
        return resumed


def _bare(subject: str, body: bytes, reply: str = "") -> Frames:
    return [subject.encode(), body, b"", reply.encode()]


def _replies(frames: Iterable[Frames]) -> list[WorkerNotice]:
    return [SendNow(f) for f in frames]
