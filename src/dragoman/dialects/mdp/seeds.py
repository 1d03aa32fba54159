"""Valid MDP messages to a broker, for the fuzzer to mutate: every command of both versions."""

from dataclasses import replace
from typing import Final

from dragoman.dialects.base import Frames
from dragoman.dialects.mdp.wire import (
    V1,
    V2,
    ClientRequest,
    MdpDisconnect,
    MdpHeartbeat,
    MdpReady,
    Message,
    WorkerReply,
    WorkerRequest,
    encode,
)
from dragoman.dialects.notes import write_note
from dragoman.dialects.parts import call_parts
from dragoman.model.content import Call

_CALL: Final = call_parts(Call("echo", (1, "two"), {"x": None}))
_SUBMIT: Final = write_note({"job": "fuzz-1", "task": "echo", "timeout": 0.2, "target": "any"})
_WORKER: Final = write_note({"name": "w-1", "credit": 4, "holds": ["fuzz-1"], "labels": {"a": "b"}})
_UUID: Final = b"0123456789abcdef0123456789abcdef"
_MESSAGES: Final[tuple[Message, ...]] = (
    ClientRequest(b"fuzz", _CALL),
    ClientRequest(b"fuzz", (b"",)),
    ClientRequest(b"fuzz", (_SUBMIT, *_CALL)),
    ClientRequest(b"", (write_note({"ask": "result", "job": "fuzz-1"}),)),
    ClientRequest(b"", (write_note({"ask": "cancel", "job": "fuzz-1"}),)),
    ClientRequest(b"", (write_note({"ask": "input", "job": "fuzz-1"}), b"\x01")),
    ClientRequest(b"mmi.service", (b"fuzz",)),
    ClientRequest(b"mmi.odd", (b"fuzz",)),
    ClientRequest(b"titanic.request", (b"fuzz", *_CALL)),
    ClientRequest(b"titanic.reply", (_UUID,)),
    ClientRequest(b"titanic.close", (_UUID,)),
    MdpReady(b"fuzz"),
    MdpReady(b"fuzz", (_WORKER,)),
    MdpReady(b"mmi.odd"),
    WorkerRequest(b"c-1", _CALL),
    WorkerReply(b"1/fuzz-1", _CALL),
    WorkerReply(b"1/fuzz-1", (write_note({"kind": "fault", "code": "task_failed"}),)),
    MdpHeartbeat(),
    MdpDisconnect(),
)
_PARTIAL: Final = WorkerReply(b"1/fuzz-1", (write_note({"kind": "chunk"}), b"x"), is_final=False)
SEEDS: Final[list[Frames]] = [
    *(encode(replace(message, version=version)) for message in _MESSAGES for version in (V1, V2)),
    encode(_PARTIAL),
]
