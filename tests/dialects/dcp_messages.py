"""Helpers for tests of DCP: peers are addresses, messages are functions, the broker is real."""

from itertools import count
from typing import Any

from tests.dialects.fabric import Fabric

from dragoman.dialects.dcp.body_codec import DcpBodyCodec
from dragoman.dialects.dcp.broker_side import DcpBrokerSide
from dragoman.dialects.dcp.settings import DcpSettings
from dragoman.dialects.dcp.wire import (
    NARROW,
    DcpRequest,
    Message,
    Registration,
    decode,
    encode,
)

C, C2, W, W2 = b"C1", b"C2", b"W1", b"W2"


def make_fabric(**settings: Any) -> Fabric:
    numbers = count(1)
    side = DcpBrokerSide(
        codecs={"dcp": DcpBodyCodec()},
        ids=lambda: f"job-{next(numbers)}",
        settings=DcpSettings(**settings),
    )
    return Fabric(side)


def say(fabric: Fabric, address: bytes, *messages: Message) -> None:
    fabric.say("dcp", address, *(encode(m) for m in messages))


def hear(fabric: Fabric, address: bytes) -> list[Message]:
    return [decode(frames) for frames in fabric.hear("dcp", address)]


def register(fabric: Fabric, address: bytes, service: bytes, width: int = NARROW) -> None:
    say(fabric, address, Registration(service, width=width))
    assert hear(fabric, address) == [Registration(service, width=width)]


def ask(
    meta: bytes = b"m", data: bytes = b"d", service: bytes = b"echo", **more: Any
) -> DcpRequest:
    return DcpRequest(service, more.pop("client", b""), (meta, b"", data), **more)
