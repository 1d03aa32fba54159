"""Helpers for ZSS tests: peers as addresses, messages as functions, the real broker between."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from tests.dialects.fabric import Fabric

from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.body_codec import ZssBodyCodec
from dragoman.dialects.zss.broker_side import broker_sides
from dragoman.dialects.zss.settings import ZssSettings
from dragoman.dialects.zss.wire import (
    NIL,
    REP,
    REQ,
    ZssMessage,
    decode,
    encode,
    write_address,
)

FRONT, BACK = "zss", "zss_backend"
C, C2, S, S2 = b"client#1", b"client#2", b"PONG#1", b"PONG#2"
RID = b"c50fd390-e12e-11f1-a42a-5191b11db4f3"
PING = write_address("PONG", "PING")
KEPT = write_address("TITANIC/PONG", "PING")
VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors/zss/vectors.json").read_text()
)


def fabric(**settings: Any) -> Fabric:
    numbers = count(1)
    chosen = ZssSettings(**{"traces": False} | settings)
    ids = (f"job-{n}" for n in numbers)
    return Fabric(
        *broker_sides(codecs={"zss": ZssBodyCodec()}, ids=lambda: next(ids), settings=chosen)
    )


def ask(rid: bytes = RID, payload: bytes = b"\xa2hi", **more: Any) -> ZssMessage:
    said: dict[str, Any] = {"address": PING, "status": b"null", **more}
    return ZssMessage(REQ, rid, payload=payload, **said)


def call(broker: Fabric, client: bytes, *messages: ZssMessage) -> None:
    broker.say(FRONT, client, *(encode(m) for m in messages))


def serve(broker: Fabric, instance: bytes, *messages: ZssMessage) -> None:
    broker.say(BACK, instance, *(encode(m) for m in messages))


def heard(broker: Fabric, link: str, address: bytes) -> list[ZssMessage]:
    return [decode(frames) for frames in broker.hear(link, address)]


def smi(verb: str, sid: str = "PONG", **more: Any) -> ZssMessage:
    return ZssMessage(
        REQ, b"smi", write_address("SMI", verb), NIL, b"null", oldpack.encode(sid), **more
    )


def up(broker: Fabric, instance: bytes = S, sid: str = "PONG") -> None:
    serve(broker, instance, smi("UP", sid, identity=instance))
    assert [m.status for m in heard(broker, BACK, instance)] == [b"200"]


def reply(m: ZssMessage, status: bytes = b"200", payload: bytes = b"\xa2ok") -> ZssMessage:
    return replace(m, kind=REP, status=status, payload=payload)
