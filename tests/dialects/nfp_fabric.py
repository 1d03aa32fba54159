"""A broker with an NFP link in memory, and peers that are lists of frames."""

from collections import defaultdict
from typing import Any

import msgspec
from tests.kept_bodies import KeptBodies

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, SendWork
from dragoman.core.events import DeliveryFailed, Event, TimeAdvanced
from dragoman.dialects.base import Frames, Send, Subscribed
from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.broker_side import NfpBrokerSide
from dragoman.ledger.rows import to_row
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.record import Kind, Record


class NfpFabric:
    """Core and side together; every step checks all invariants."""

    def __init__(self, side: NfpBrokerSide | None = None, broker: Broker | None = None) -> None:
        self.broker = broker or Broker()
        self.side = side or NfpBrokerSide("nfp")
        self.now = 1000.0
        self.records: list[Record] = []
        self._bodies = KeptBodies()
        self.subscriptions: list[Subscribed] = []
        self._inboxes: dict[bytes, list[wire.Message]] = defaultdict(list)
        self._raw: dict[bytes, list[Frames]] = defaultdict(list)

    def say(self, address: str | bytes, *messages: wire.Message | Frames) -> None:
        """Send messages of a peer to the broker."""
        raw = address.encode() if isinstance(address, str) else address
        for message in messages:
            frames = message if isinstance(message, list | tuple) else wire.encode(message)  # type: ignore[arg-type]
            for heard in self.side.receive(raw, frames, self.now):
                self.do(heard)
        self._check()

    def do(self, heard: Event | Send | Subscribed) -> None:
        """Apply one event or answer of the side."""
        if isinstance(heard, Send):
            self._deliver(heard)
        elif isinstance(heard, Subscribed):
            self.subscriptions.append(heard)
        else:
            for effect in self.broker.handle(heard, self.now):
                self._apply(effect)

    def _apply(self, effect: Effect) -> None:
        if isinstance(effect, Append):
            self.records.append(effect.record)
            self._bodies.keep(effect)
            to_row(effect.record)  # a record that cannot be stored would stop a real broker
            return
        effect = self._bodies.fill(effect)
        try:
            sends = self.side.render(effect, self.now)
        except Unmappable as why:
            assert isinstance(effect, SendWork)
            fault = Fault(FaultCode.UNMAPPABLE, str(why))
            self.do(DeliveryFailed(effect.worker, False, effect.job, effect.attempt, fault))
            return
        for send in sends:
            self._deliver(send)

    def _deliver(self, send: Send) -> None:
        self._raw[send.address].append(send.frames)
        self._inboxes[send.address].append(wire.decode(send.frames))

    def heard(self, address: str | bytes) -> list[wire.Message]:
        """Return the messages that a peer received since the last call."""
        raw = address.encode() if isinstance(address, str) else address
        self._raw.pop(raw, None)
        return self._inboxes.pop(raw, [])

    def frames(self, address: str | bytes) -> list[Frames]:
        """Return the same messages as frames."""
        raw = address.encode() if isinstance(address, str) else address
        self._inboxes.pop(raw, None)
        return self._raw.pop(raw, [])

    def advance(self, seconds: float) -> None:
        """Advance time in half seconds, so that no timer is late."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 0.5)
            self.do(TimeAdvanced())
            for heard in self.side.advance(self.now):
                self.do(heard)
        self._check()

    def kinds(self) -> list[str]:
        """Return the kinds of all records."""
        return [record.kind for record in self.records]

    def notes(self, kind: Kind) -> list[str]:
        """Return the details of the records of one kind."""
        return [record.detail for record in self.records if record.kind == kind]

    def _check(self) -> None:
        self.broker.validate()
        self.side.validate()


def post(
    uuid: str = "j1", service: str = "math", target: str = "any", body: bytes = b"", **more: Any
) -> wire.NfpRequest:
    """Make a client's POST."""
    return wire.NfpRequest(
        wire.POST, service.encode(), target.encode(), uuid.encode(), body or call(), **more
    )


def get(uuid: str = "j1", target: str = "all", service: str = "math") -> wire.NfpRequest:
    """Make a client's GET."""
    return wire.NfpRequest(wire.GET, service.encode(), target.encode(), uuid.encode(), b"")


def call(task: str = "add", **kwargs: Any) -> bytes:
    """Make a POST body."""
    return msgspec.json.encode({"task": task, "kwargs": kwargs, "args": [], "timeout": 20})


def ready(service: str = "math") -> wire.NfpReady:
    """Make a worker's READY."""
    return wire.NfpReady(service.encode())


def response(
    status: str, body: object = None, uuid: str = "j1", client: str = "c1"
) -> wire.NfpReport:
    """Make a worker's RESPONSE."""
    data = msgspec.json.encode(body)
    return wire.NfpReport(wire.RESPONSE, client.encode(), uuid.encode(), status.encode(), data)


def event(kind: str, uuid: str = "j1", client: str = "c1", **more: Any) -> wire.NfpReport:
    """Make a worker's EVENT."""
    data = msgspec.json.encode({"worker": "w1", "event_type": kind, "uuid": uuid, **more})
    return wire.NfpReport(wire.EVENT, client.encode(), uuid.encode(), b"200", data)


def result(value: object = 5, worker: str = "w1", **more: Any) -> dict[str, Any]:
    """Make the body of a RESPONSE 200."""
    return {worker: {"result": value, "failed": False, "errors": [], **more}}


def told(messages: list[wire.Message]) -> list[tuple[str, str]]:
    """Return the commands and statuses that a client received."""
    return [(m.command, m.status.decode()) for m in messages if isinstance(m, wire.NfpReply)]


def asked(messages: list[wire.Message]) -> list[str]:
    """Return the commands of the tasks that a worker received."""
    return [m.command for m in messages if isinstance(m, wire.NfpTask)]


def body_of(message: wire.Message) -> Any:
    """Read the JSON body of a message."""
    assert isinstance(message, wire.NfpReply | wire.NfpTask | wire.NfpReport | wire.Open)
    return msgspec.json.decode(message.body)
