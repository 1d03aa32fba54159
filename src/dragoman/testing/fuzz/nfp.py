"""NFP clients and workers of both readings, in frames as a DEALER sends them."""

from pathlib import Path
from random import Random
from typing import Final

from dragoman.dialects.nfp.wire import BROKER, CLIENT, WORKER
from dragoman.testing.fuzz.grammar import Grammar, frames_of, read_vectors
from dragoman.testing.fuzz.mutations import Frames

_TARGETS: Final = (
    b"any",
    b"all",
    b"w-1",
    b'["w-1","w-2"]',
    b"w-1,w-2",
    b"[]",
    b"{}",
    b"labels:a=b",
)
_STATUSES: Final = (b"200", b"202", b"300", b"400", b"404", b"408", b"", b"99999", b"abc")
#: Management tasks that only read; none stops the broker.
_LOOK: Final = ("show_workers", "show_broker", "get_stats", "list_services", "show_jobs", "no_such")


class NfpGrammar(Grammar):
    """Makes NFP messages."""

    def __init__(self, random: Random, vectors: Path | None = None) -> None:
        super().__init__(random, _captured(vectors) if vectors else ())
        self.kinds = (
            self._post,
            self._post,
            self._post,
            self._ask,
            self._ask,
            self._manage,
            self._ready,
            self._beat,
            self._leave,
            self._report,
            self._report,
            self._open,
        )

    def _command(self, number: int) -> bytes:
        """Write a command in one of two spellings, mostly as text, as most peers do."""
        if self.random.random() < 0.2:
            return bytes([number])
        return f"0x{number:02x}".encode()

    def _post(self) -> Frames:
        target, job = self.random.choice(_TARGETS), self.job().encode()
        body = self.json(self.call())
        return [b"", CLIENT, self._command(4), self.service().encode(), target, job, body]

    def _ask(self) -> Frames:
        command = self._command(self.random.choice((6, 7, 0x10, 8, 9, 0x12, 0x7F)))
        target, job = self.random.choice(_TARGETS), self.job().encode()
        body = self.json({"data": "x", "uuid": self.job(), "topics": ["a.*"], "after": 0})
        return [b"", CLIENT, command, self.service().encode(), target, job, body]

    def _manage(self) -> Frames:
        service = self.random.choice((b"mmi.service.broker", b"sid.service.broker", b"fss.x"))
        body = self.json({"task": self.random.choice(_LOOK), "args": [], "kwargs": {"brief": True}})
        return [b"", CLIENT, self._command(0x11), service, b"any", self.job().encode(), body]

    def _ready(self) -> Frames:
        return [b"", WORKER, self._command(1), self.service().encode()]

    def _beat(self) -> Frames:
        return [b"", WORKER, self._command(2), self.service().encode()]

    def _leave(self) -> Frames:
        role = self.random.choice((WORKER, CLIENT, BROKER))
        return [b"", role, self._command(3), self.service().encode()]

    def _open(self) -> Frames:
        fields: dict[str, object] = {"attempts": True, "holds": [self.job()], "labels": {"a": "b"}}
        return [b"", self.random.choice((WORKER, CLIENT)), self._command(0), self.json(fields)]

    def _report(self) -> Frames:
        command = self._command(self.random.choice((5, 5, 8, 9)))
        client, job = self.random.choice((b"c-1", b"", b"z")), self.job().encode()
        fields = {
            "w-1": {"result": 1, "failed": False, "errors": [], "messages": []},
            "message": "m",
        }
        frames = [b"", WORKER, command, client, b"", job, self.random.choice(_STATUSES)]
        return [*frames, self.json(fields), *([b"1"] if self.random.random() < 0.3 else [])]


def _captured(vectors: Path) -> list[Frames]:
    """Return captured messages of peers without the identity frame, which the socket adds."""
    found = read_vectors(vectors / "nfp")
    return [frames_of(v)[1:] for v in found if v["direction"].endswith(">broker")]
