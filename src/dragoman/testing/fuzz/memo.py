"""memo01: one CBOR array and a payload, as the only frame of a request."""

from pathlib import Path
from random import Random

import cbor2

from dragoman.dialects.memo01.wire import DISCONNECT, HEARTBEAT, JOB, READY, RESULT, VERSION
from dragoman.testing.fuzz.grammar import Grammar, frames_of, read_vectors
from dragoman.testing.fuzz.mutations import Frames


class MemoGrammar(Grammar):
    """Makes memo01 messages."""

    def __init__(self, random: Random, vectors: Path | None = None) -> None:
        super().__init__(random, _captured(vectors) if vectors else ())
        self.ids = [random.randbytes(4) for _ in range(20)]
        self.kinds = (
            self._job,
            self._job,
            self._job,
            self._ready,
            self._result,
            self._result,
            self._beat,
            self._odd_header,
        )

    def mutate(self, frames: Frames) -> Frames:
        """Mutate the bytes; there is always one frame."""
        return [self.mutator.mutate(frames[0] if frames else b"")]

    def _write(self, fields: list[object], payload: bytes = b"") -> Frames:
        return [cbor2.dumps(self.odd(fields), canonical=True) + payload]

    def _id(self) -> bytes:
        return self.random.choice(self.ids)

    def _job(self) -> Frames:
        timeout = self.random.choice((50, 200, 0, -1, 1, 2**31, 2**63))
        payload = cbor2.dumps(self.call(), canonical=True)
        id_ = b"" if self.random.random() < 0.9 else self._id()
        return self._write([VERSION, JOB, id_, self.service(), timeout], payload)

    def _ready(self) -> Frames:
        names = sorted({self.service(), self.service()}, key=lambda n: (len(n), n))
        if self.random.random() < 0.05:
            names = [f"n{number:05}" for number in range(self.random.choice((5, 500, 2000)))]
        return self._write([VERSION, READY, b"", names])

    def _result(self) -> Frames:
        flag = self.random.choice(([], [True], [False]))
        return self._write([VERSION, RESULT, self._id(), *flag], cbor2.dumps({"x": 1}))

    def _beat(self) -> Frames:
        return self._write([VERSION, self.random.choice((HEARTBEAT, DISCONNECT)), self._id()])

    def _odd_header(self) -> Frames:
        kind = self.random.choice((0, 6, -1, 2**64 - 1, 1.0, "2", None, cbor2.CBORTag(2, b"\x02")))
        version = self.random.choice((VERSION, "memo02", b"memo01", 1))
        return self._write([version, kind, self._id(), "fuzz", 5])


def _captured(vectors: Path) -> list[Frames]:
    found = [v for v in read_vectors(vectors / "memo01") if "message_hex" in v]
    return [frames_of(v) for v in found if v["direction"].endswith(">broker")]
