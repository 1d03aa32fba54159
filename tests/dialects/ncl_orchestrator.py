"""An orchestrator side on its own, and a node that sends single messages to it."""

from typing import Any

from dragoman.core.events import Noted
from dragoman.dialects.base import Send
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.body_codec import NclBodyCodec
from dragoman.dialects.ncl.broker_side import NclBrokerSide
from dragoman.dialects.ncl.messages import BacError, HandshakeRequest
from dragoman.dialects.ncl.models import ComputeInfo, NodeInfo, Resources, WireObject
from dragoman.dialects.ncl.settings import OrchestratorSettings

NOW = 1_700_000_000.0
CTRL = "bacalhau.global.compute.n-1.out.ctrl"
DATA = "bacalhau.global.compute.n-1.out.msgs"


def info(name: str = "n-1") -> NodeInfo:
    compute = ComputeInfo(ExecutionEngines=["math"], MaxCapacity=Resources(CPU=4))
    return NodeInfo(name, "Compute", None, ["ncl/v1"], compute)


def side(**settings: Any) -> NclBrokerSide:
    made = OrchestratorSettings(**settings)
    return NclBrokerSide(codecs={"ncl": NclBodyCodec()}, ids=lambda: "x", settings=made)


def connected(**settings: Any) -> NclBrokerSide:
    made = side(**settings)
    say(made, CTRL, HandshakeRequest(info()))
    return made


def say(
    made: NclBrokerSide,
    subject: str,
    payload: WireObject,
    source: str = "n-1",
    reply: str = "r",
    **more: Any,
) -> list[Any]:
    pairs = wire.metadata(payload, source, NOW, **more)
    frames = wire.frames(payload, pairs, reply)
    return list(made.receive(subject.encode(), frames, NOW))


def error_in(told: list[Any]) -> BacError:
    (send,) = [t for t in told if isinstance(t, Send)]
    payload = wire.decode(send.frames[0]).payload
    assert isinstance(payload, BacError)
    return payload


def noted_in(told: list[Any]) -> Noted:
    (noted,) = [t for t in told if isinstance(t, Noted)]
    return noted
