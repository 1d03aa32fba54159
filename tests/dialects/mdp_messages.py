"""Helpers for tests of MDP: peers are addresses, the broker is real."""

from itertools import count
from typing import Any

from tests.dialects.fabric import Fabric

from dragoman.dialects.local.broker_side import LocalBrokerSide
from dragoman.dialects.mdp.broker_side import MdpBrokerSide
from dragoman.dialects.mdp.settings import MdpSettings
from dragoman.dialects.mdp.wire import V2, MdpReady, Message, decode, encode
from dragoman.dialects.registry import body_codecs

C, C2, W, W2 = b"C1", b"C2", b"W1", b"W2"


def make_fabric(**settings: Any) -> Fabric:
    numbers = count(1)
    side = MdpBrokerSide(
        codecs=body_codecs(),
        ids=lambda: f"{next(numbers):032x}",
        settings=MdpSettings(**settings),
    )
    return Fabric(side, LocalBrokerSide(body_codecs()))


def say(fabric: Fabric, address: bytes, *messages: Message) -> None:
    fabric.say("mdp", address, *(encode(m) for m in messages))


def hear(fabric: Fabric, address: bytes, *, is_client: bool = False) -> list[Message]:
    sent = fabric.hear("mdp", address)
    return [decode(frames, to_broker=not is_client) for frames in sent]


def register(fabric: Fabric, address: bytes, service: bytes = b"echo", version: int = V2) -> None:
    say(fabric, address, MdpReady(service, version=version))
    assert hear(fabric, address) == []
