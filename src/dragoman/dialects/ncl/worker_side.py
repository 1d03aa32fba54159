"""A worker as a compute node: session, data plane, executions, logs and discovery put together.

The frames of this side are `[subject, body, headers, reply]`, both ways. Its shell subscribes to
`subscriptions` before it sends what `join` returns. Time comes from the clock given at
construction; `beat` is called every `beat_every` seconds and does whatever is due. A message with
an empty subject tells that the connection to NATS is a new one.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.compute import Compute, resources_of
from dragoman.dialects.ncl.dataplane import Publisher
from dragoman.dialects.ncl.discovery import PREFIX, Discovery
from dragoman.dialects.ncl.log_producer import LogProducer
from dragoman.dialects.ncl.messages import HandshakeResponse
from dragoman.dialects.ncl.models import (
    BuildVersionInfo,
    ComputeInfo,
    NodeInfo,
    Resources,
    WireObject,
)
from dragoman.dialects.ncl.nodes import PROTOCOL, SERVICE_LABEL, SLOTS_LABEL
from dragoman.dialects.ncl.session import CONNECTED, NodeSession
from dragoman.dialects.ncl.settings import ComputeSettings
from dragoman.dialects.ncl.store import NodeStore
from dragoman.dialects.peer_sides import Alive, Assigned, SendNow, Unsupported, WorkerNotice
from dragoman.model.capacity import Capacity
from dragoman.model.content import Answer, Call

_ACK: Final = b"{}"
_GIB: Final = 1024**3


class NclWorkerSide:
    """A worker's end of NCL."""

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
        self._most = capacity or Capacity(float(slots), slots * _GIB, slots * 10 * _GIB)
        #: Announced with the node; change them at any time, the orchestrator is told.
        self.labels = dict(labels or {})
        self.settings = settings or ComputeSettings()
        self.store = store or NodeStore(remember=self.settings.remember)
        # Under its own name, so that a server can keep others from listening there.
        self._inbox = f"_INBOX.{node}.{wire.inbox_token(ids())}"
        now = clock()
        self._session = NodeSession(node, self.settings, self.describe, now)
        self._compute = Compute(self._services, slots, self._most, self.store, self._say)
        s = self.settings
        self._publisher = Publisher(s.ack_wait, s.max_pending, s.retry_base, s.retry_max)
        self._producing = LogProducer(node, self._inbox, self.settings, self._compute.find)
        self._discovery = Discovery(node, self._services, version, now)
        self._received = self.store.received
        self._opened = 0
        self._checkpoint_at = now + s.checkpoint_interval
        self.beat_every = s.tick
        self.hold: float | None = s.heartbeat_interval * s.heartbeat_miss_factor
        #: What arrived and could not be read, for the shell to log; newest last, bounded.
        self.troubles: list[str] = []
        self._resumed = self._resume(now)

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """What the shell has to subscribe to before `join`."""
        return (
            wire.compute_subject(self.name, wire.IN_MSGS),
            wire.logs_subject(self.name),
            f"{self._inbox}.*",
            *self._discovery.subscriptions,
        )

    @property
    def slots(self) -> int:
        """How many executions it takes at once; may change, the orchestrator is told."""
        return self._compute.slots

    @slots.setter
    def slots(self, slots: int) -> None:
        self._compute.slots = slots

    @property
    def is_connected(self) -> bool:
        """Whether the orchestrator has accepted this node."""
        return self._session.state == CONNECTED

    @property
    def trouble(self) -> str:
        """Why there is no session, or why the last request failed; empty when all is well."""
        return self._session.trouble

    def describe(self) -> NodeInfo:
        """Tell what this node is like now."""
        names = ",".join(self._services)
        ours = {"name": self.name, SERVICE_LABEL: names, SLOTS_LABEL: str(self._compute.slots)}
        most = resources_of(self._most)
        return NodeInfo(
            self.name,
            "Compute",
            {**self.labels, **ours},
            [PROTOCOL],
            ComputeInfo(
                ExecutionEngines=[name.lower() for name in self._services],
                Publishers=["local", "noop"],
                StorageSources=["inline"],
                MaxCapacity=most,
                AvailableCapacity=self._compute.free,
                MaxJobRequirements=most,
                RunningExecutions=self._compute.live,
            ),
            BuildVersionInfo(GitVersion=f"v{self._version}"),
        )

    # --- in -------------------------------------------------------------------------------------

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Take one message in; what cannot be read is noted and ignored."""
        try:
            subject, body, _, reply = frames[0].decode(), frames[1], frames[2], frames[3].decode()
        except (UnicodeDecodeError, IndexError):
            return self._noted("frames that are not a message")
        now = self._clock()
        if not subject:
            return self._reconnected(now)
        if subject == wire.compute_subject(self.name, wire.IN_MSGS):
            return self._data(body, reply, now)
        if subject.startswith(self._inbox + "."):
            return self._answered(subject[len(self._inbox) + 1 :], body, now)
        if subject == wire.logs_subject(self.name):
            return _replies(self._producing.asked(body, reply, now))
        if subject.startswith(PREFIX + "."):
            answers = self._discovery.answers(subject, self._compute.runs, self._compute.failures)
            return _replies([_bare(reply, a) for a in answers] if reply else [])
        return self._noted(f"nothing is served on {subject}")

    def _data(self, body: bytes, reply: str, now: float) -> list[WorkerNotice]:
        """Store, then ack. Never a refusal on the wire: it can stop a real sender for good."""
        words: list[WorkerNotice] = []
        try:
            message = wire.decode(body)
            if self._compute.handles(message.payload):
                words = self._compute.receive(message.payload, now)
                # What comes outside a session says nothing about what came before it.
                if self.is_connected:
                    self._received = max(self._received, message.seq)
            else:
                self._noted(f"{type(message.payload).__name__} is no message to a node")
        except MalformedMessage as error:
            self._noted(str(error))
        lines = [frames for word in words for frames in self._producing.begun(word, now)]
        ack = [SendNow(_bare(reply, _ACK))] if reply else []
        return [*ack, *_replies([*self._pump(now), *lines]), *words]

    def _answered(self, token: str, body: bytes, now: float) -> list[WorkerNotice]:
        if token.startswith("d"):
            self._acked(token[1:], body, now)
            return [Alive(), *_replies(self._pump(now))]
        if token.startswith("b"):
            return _replies(self._producing.answered(token, body))
        response = self._session.answered(token, body, now)
        if response is None:
            if not self.is_connected:
                self._publisher.close()
            # Not a word of `Alive` for an answer that is no answer: nobody may be there.
            return [Alive()] if self.is_connected and body else []
        return [Alive(), *_replies(self._open(response, now)), *self._take_resumed()]

    def _open(self, response: HandshakeResponse, now: float) -> list[Frames]:
        """Begin the data plane: go on after what was acked, and from where we are told we are."""
        self._opened += 1
        self._received = response.LastOrchestratorSeqNum
        self._publisher.open()
        return self._pump(now)

    def _acked(self, token: str, body: bytes, now: float) -> None:
        session, _, seq = token.partition("-")
        if session != str(self._opened) or not seq.isdigit():
            return
        if wire.is_ack(body):
            self._publisher.ack(int(seq))
        else:
            self._publisher.fail(now)

    def _reconnected(self, now: float) -> list[WorkerNotice]:
        """Beat at once on a new connection to NATS: the orchestrator may have been away too."""
        self._publisher.replay()
        self._session.retry_now(now)
        return _replies(self.beat())

    def _noted(self, words: str) -> list[WorkerNotice]:
        self.troubles = [*self.troubles[-99:], words]
        return []

    # --- out ------------------------------------------------------------------------------------

    def _say(self, payload: WireObject) -> None:
        self._publisher.put(self.store.say(payload), payload)

    def _pump(self, now: float) -> list[Frames]:
        subject = wire.compute_subject(self.name, wire.OUT_MSGS)
        out: list[Frames] = []
        for item in self._publisher.pump(now):
            pairs = wire.data_metadata(item.payload, self.name, now, item.seq, "")
            reply = f"{self._inbox}.d{self._opened}-{item.seq}"
            out.append([subject.encode(), *wire.frames(item.payload, pairs, reply)])
        return out

    def _requests(self, asked: list[tuple[str, WireObject]], now: float) -> list[Frames]:
        subject = wire.compute_subject(self.name, wire.CTRL).encode()
        return [
            [
                subject,
                *wire.frames(
                    payload, wire.metadata(payload, self.name, now), f"{self._inbox}.{token}"
                ),
            ]
            for token, payload in asked
        ]

    def join(self) -> list[Frames]:
        """Shake hands, on every new connection."""
        now = self._clock()
        self._publisher.close()
        return self._requests(self._session.join(self._received, now), now)

    def beat(self) -> list[Frames]:
        """Do what is due: heartbeats, handshakes, changes, deliveries, checkpoints, logs."""
        now = self._clock()
        asked = self._session.tick(self._received, self._compute.free, Resources(), now)
        if not self.is_connected:
            self._publisher.close()
        self._publisher.advance(now)
        if now >= self._checkpoint_at:
            self.checkpoint()
        return [*self._requests(asked, now), *self._pump(now), *self._producing.tick(now)]

    def checkpoint(self) -> None:
        """Store how far both directions have come."""
        self._checkpoint_at = self._clock() + self.settings.checkpoint_interval
        self.store.save_progress(self._received, self._publisher.settled)

    def leave(self) -> list[Frames]:
        """Say good-bye: last messages, a final checkpoint, the notice."""
        now = self._clock()
        last = self._pump(now)
        self.checkpoint()
        goodbye = self._requests(self._session.leave(self._received, now), now)
        return [*last, *self._producing.close_all(), *goodbye]

    # --- work -----------------------------------------------------------------------------------

    def take(self, ticket: str) -> list[Frames]:
        """Note that it runs; NCL has no message for that."""
        self._compute.begin(ticket)
        return []

    def progress(self, ticket: str, event: Any) -> list[Frames]:
        """Report on the way, as a line of output to whoever follows it."""
        return self._producing.progress(ticket, event)

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Send a piece of a stream, as a line of output."""
        return self._producing.chunk(ticket, data)

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result; it is kept until the orchestrator has it."""
        now = self._clock()
        self._compute.finish(ticket, answer, now)
        return [*self._producing.ended(ticket), *self._pump(now)]

    def hand_back(self, ticket: str) -> list[Frames]:
        """Return a job unrun."""
        now = self._clock()
        self._compute.hand_back(ticket, now)
        return [*self._producing.ended(ticket), *self._pump(now)]

    def ask_input(self, ticket: str, request: str, question: Any) -> list[Frames]:
        """Ask the client something: NCL cannot."""
        raise Unsupported("NCL has no way to ask a client for input; use an nfp or http worker")

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Pass the job on: NCL cannot."""
        raise Unsupported("NCL has no way to pass a job on; finish it and let the client go on")

    def publish(self, topic: str, event: Any) -> list[Frames]:
        """Publish an event: NCL cannot."""
        raise Unsupported("NCL has no events; report progress of a job instead")

    # --- restart --------------------------------------------------------------------------------

    def _resume(self, now: float) -> list[Assigned]:
        """Go on after a restart: settle interrupted work, queue what was never acked."""
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
