"""A broker side to talk to, and peers that talk to it, for the tests of memo01."""

from itertools import count
from typing import Any

from dragoman.core.effects import SendReply, SendWork
from dragoman.core.events import Event, JobSubmitted, ReplyKind, WorkerJoined
from dragoman.dialects.base import BodyCodecs, Send
from dragoman.dialects.memo01.body_codec import MemoBodyCodec
from dragoman.dialects.memo01.broker_side import MemoBrokerSide
from dragoman.dialects.memo01.settings import MemoSettings
from dragoman.dialects.memo01.wire import MemoMessage, MemoReady, decode, encode
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName

ONE, TWO = b"connect1", b"connect2"
SERVICE = ServiceName("svc")


class OtherBodyCodec:
    """A dialect that writes everything as text, for crossing over."""

    name = "other"

    def read_call(self, body: Body) -> Call:
        return Call("echo", (body.parts[0].decode(),))

    def write_call(self, call: Call) -> Body:
        return Body("other", (repr(call).encode(),))

    def read_answer(self, body: Body) -> Answer:
        if body.parts == (b"failed",):
            return Answer(fault=Fault(FaultCode.TASK_FAILED))
        return Answer(value=body.parts[0].decode())

    def write_answer(self, answer: Answer) -> Body:
        return Body("other", (repr(answer).encode(),))


def make(settings: MemoSettings | None = None) -> MemoBrokerSide:
    numbers = count(1)
    codecs: BodyCodecs = {"memo": MemoBodyCodec(), "other": OtherBodyCodec()}
    return MemoBrokerSide(lambda: f"id{next(numbers)}", codecs, settings)


class Peer:
    """A requester on one connection: each request gets the next ID."""

    def __init__(
        self, side: MemoBrokerSide, connection: bytes = ONE, first: int = 0x80000000
    ) -> None:
        self.side = side
        self.connection = connection
        self._ids = count(first)
        self.address = b""

    def say(self, message: MemoMessage | bytes, now: float = 0.0) -> list[Event | Send]:
        self.address = self.connection + next(self._ids).to_bytes(4)
        return self.again(message, now)

    def again(self, message: MemoMessage | bytes, now: float = 0.0) -> list[Event | Send]:
        raw = message if isinstance(message, bytes) else encode(message)
        return self.side.receive(self.address, [raw], now)


def joined(
    side: MemoBrokerSide, peer: Peer, *services: str, now: float = 0.0
) -> tuple[PeerId, bytes]:
    """Let a worker join; return its peer id and its ID."""
    (event,) = peer.say(MemoReady(services or ("svc",)), now)
    assert isinstance(event, WorkerJoined)
    return event.worker, bytes.fromhex(event.worker.partition("/")[2])


def work(worker: PeerId, payload: bytes = b"in", **more: Any) -> SendWork:
    body = more.pop("body", Body("memo", (payload,)))
    return SendWork(worker, JobId("j"), 1, SERVICE, PeerId("x/c"), body, **more)


def final(job: JobId, payload: bytes = b"out", **more: Any) -> SendReply:
    body = more.pop("body", Body("memo", (payload,)))
    return SendReply(PeerId("memo/c"), job, ReplyKind.FINAL, SERVICE, body=body, **more)


def submitted(outcome: list[Event | Send]) -> JobSubmitted:
    (event,) = outcome
    assert isinstance(event, JobSubmitted)
    return event


def said(sends: list[Send] | list[Event | Send]) -> list[tuple[bytes, MemoMessage]]:
    return [(s.address, decode(s.frames[0])) for s in sends if isinstance(s, Send)]
