"""ZSS clients on the front, services on the back, in seven or eight frames."""

from pathlib import Path
from random import Random
from typing import Final

import msgpack

from dragoman.dialects.zss.wire import PROTOCOL
from dragoman.testing.fuzz.grammar import Grammar, frames_of, read_vectors
from dragoman.testing.fuzz.mutations import Frames

_STATUSES: Final = (b"null", b"", b"200", b"204", b"102", b"206", b"100", b"410", b"500", b"9999")
_TITANIC: Final = ("TITANIC", "TITANIC/FUZZ", "SMI")


class _Messages(Grammar):
    """What both sides share: addresses, request ids, headers, payloads in old MessagePack."""

    def _pack(self, value: object) -> bytes:
        packed: bytes = msgpack.packb(self.odd(value), use_bin_type=False, default=repr)
        return packed

    def _rid(self) -> bytes:
        job = self.job()
        text = f"{job[:8]}-{job[8:12]}-{job[12:16]}-{job[16:20]}-{job[20:]}"
        return self.random.choice((text, text, text, "short", "")).encode()

    def _address(self, sid: str, verb: str, **more: object) -> bytes:
        return self._pack({"sid": sid, "sversion": "*", "verb": verb, **more})

    def _message(self, kind: bytes, address: bytes, status: bytes, payload: object) -> Frames:
        headers = self._pack(self.random.choice(({}, None, {"micro.cs": 1.5e12})))
        return [PROTOCOL, kind, self._rid(), address, headers, status, self._pack(payload)]

    def _extra(self) -> dict[str, object]:
        fields = {
            "job": self.job(),
            "timeout": 0.2,
            "target": "any",
            "partial": True,
            "priority": 2,
        }
        fields |= {"credit": 3, "holds": 0, "worker": "w-1", "request": "q"}
        keys = self.random.sample(list(fields), self.random.randrange(4))
        return {key: fields[key] for key in keys}


class ZssFrontGrammar(_Messages):
    """Makes messages of clients."""

    def __init__(self, random: Random, vectors: Path | None = None) -> None:
        super().__init__(random, _captured(vectors, "client->") if vectors else ())
        self.kinds = (self._request, self._request, self._request, self._titanic, self._part)

    def _request(self) -> Frames:
        address = self._address(self.service(), "ECHO", **self._extra())
        return self._message(b"REQ", address, self.random.choice(_STATUSES[:2]), {"x": [1, "a"]})

    def _titanic(self) -> Frames:
        verb = self.random.choice(("RESULT", "CANCEL", "UP", "ECHO"))
        address = self._address(self.random.choice(_TITANIC), verb, **self._extra())
        return self._message(b"REQ", address, b"null", self.job())

    def _part(self) -> Frames:
        address = self._address(self.service(), "ECHO", **self._extra())
        kind = self.random.choice((b"PRT", b"REP", b"req", b""))
        return self._message(kind, address, self.random.choice(_STATUSES), "x")


class ZssBackGrammar(_Messages):
    """Makes messages of services."""

    def __init__(self, random: Random, vectors: Path | None = None) -> None:
        super().__init__(random, _captured(vectors, "service->") if vectors else ())
        self.kinds = (self._smi, self._smi, self._reply, self._reply, self._part, self._forward)

    def _named(self, frames: Frames) -> Frames:
        """Add a client's identity before most messages."""
        if self.random.random() < 0.2:
            return frames
        return [self.random.choice((b"c-1", b"client#ff", b"nfp#c", b"", b"\xff")), *frames]

    def _smi(self) -> Frames:
        verb = self.random.choice(("UP", "HEARTBEAT", "DOWN", "up", "RESULT"))
        sid = self.random.choice(("FUZZ", "FUZZ@1.0.0", "FUZZ@", "fuzz@1.0.0-rc1", "SMI"))
        frames = self._message(b"REQ", self._address("SMI", verb, **self._extra()), b"null", sid)
        return self._named(frames)

    def _reply(self) -> Frames:
        address = self._address("FUZZ", "ECHO", **self._extra())
        return self._named(self._message(b"REP", address, self.random.choice(_STATUSES), "done"))

    def _part(self) -> Frames:
        address = self._address("FUZZ", "ECHO", **self._extra())
        return self._named(self._message(b"PRT", address, self.random.choice(_STATUSES), [1]))

    def _forward(self) -> Frames:
        return self._named(self._message(b"REQ", self._address("X", "ECHO"), b"null", 1))


def _captured(vectors: Path, direction: str) -> list[Frames]:
    found = read_vectors(vectors / "zss")
    return [frames_of(v) for v in found if v["direction"].startswith(direction)]
