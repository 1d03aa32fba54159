"""DCP: workers and clients of both widths, with and without Dragoman's own notes."""

from pathlib import Path
from random import Random
from typing import Final

import msgpack

from dragoman.dialects.dcp.wire import PROTOCOL
from dragoman.dialects.notes import PREFIX
from dragoman.testing.fuzz.grammar import Grammar, frames_of, read_vectors
from dragoman.testing.fuzz.mutations import Frames

_CLIENTS: Final = (b"c-1", b"c-2", b"\xff\xfe", b"")


class DcpGrammar(Grammar):
    """Makes DCP messages."""

    def __init__(self, random: Random, vectors: Path | None = None) -> None:
        super().__init__(random, _captured(vectors) if vectors else ())
        self.kinds = (
            self._register,
            self._ping,
            self._request,
            self._request,
            self._request,
            self._reply,
            self._reply,
            self._backwards,
        )

    def _head(self, code: int) -> Frames:
        width = self.random.choice((1, 4))
        return [b"", PROTOCOL, code.to_bytes(width, "little")]

    def _note(self) -> Frames:
        """Add the notes of our own peers to some messages."""
        if self.random.random() < 0.4:
            return []
        fields = {
            "job": self.job(),
            "timeout": 0.2,
            "target": "any",
            "kind": self.random.choice(("progress", "fault", "cancel", "input", "report", "")),
            "credit": 4,
            "labels": {"a": "b"},
            "attempt": 1,
            "code": "task_failed",
            "message": "m",
            "holds": [self.job()],
            "priority": 3,
        }
        keys = self.random.sample(list(fields), self.random.randrange(len(fields)))
        return [PREFIX + self.json({key: fields[key] for key in keys})]

    def _data(self) -> Frames:
        arguments = msgpack.packb(self.odd([[1, "two"], {"x": None}]), default=repr)
        return [self.random.choice((b"echo", b"add", b"", b"\xff")), arguments]

    def _tail(self) -> Frames:
        metadata = [b"meta"] * self.random.randrange(3)
        return [*self._note(), *metadata, *self._note(), b"", *self._data()]

    def _register(self) -> Frames:
        return [*self._head(1), self.service().encode(), *self._note()]

    def _ping(self) -> Frames:
        return [*self._head(2), *self._note()]

    def _request(self) -> Frames:
        client = self.random.choice(_CLIENTS)
        between = [client, b""] if client else [b""]
        return [*self._head(4), self.service().encode(), *between, *self._tail()]

    def _reply(self) -> Frames:
        client = self.random.choice((*_CLIENTS, self.job().encode()))
        return [*self._head(5), client, b"", *self._tail()]

    def _backwards(self) -> Frames:
        """Make a message that only a broker sends."""
        return [*self._head(self.random.choice((3, 6, 0, 7, 255))), *self._tail()]


def _captured(vectors: Path) -> list[Frames]:
    found = read_vectors(vectors / "dcp")
    return [frames_of(v) for v in found if v["direction"].endswith(">broker")]
