"""Canaries: the secrets that tests make, and the search for them in all that is left afterwards.

Here is what is looked for and how; where it comes from and when is `canary_watch`. A secret that
is made in this process is known at once. One that another process made is read from the files whose
job is to hold it. Nothing here ever shows a secret: a leak is named by kind, place and offset.
"""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

#: Files whose job is to hold a secret, by name. Everywhere else one is a leak.
HOLDERS: Final = {
    "*.key": "credentials of a peer, or the key for a certificate",
    "*.key_secret": "a CURVE pair in the form of pyzmq",
    "*.curve": "a CURVE secret alone",
    "*.seed": "an nkey: of the owner of a nats-server, or of a user",
    "*.creds": "what NATS's own tools hand to a user",
    "*.key.part": "credentials that are being written",
    "*.key.new": "a key that is being copied",
}
#: Where tests have the Parquet segments of a ledger.
_SEGMENTS: Final = frozenset({"segments", "sealed"})
#: Less than this is no secret, and would be found by chance.
SHORTEST: Final = 16
_LEAST_LETTERS: Final = 8
_PEM: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+(.+?)\s+-----END", re.DOTALL)
#: A key of an elliptic curve has its secret in the first two lines; the rest is public.
_SECRET_LINES: Final = 2
_WRITTEN: Final = {
    "CURVE key": re.compile(rb"""secret-key\s*=\s*["']([^"'\n]{40})["']"""),
    "secret": re.compile(rb"""\bsecret\s*=\s*["']([^"'\n]{16,})["']"""),
    "nkey": re.compile(rb"\b(SU[A-Z2-7]{56})\b"),
}


@dataclass(frozen=True, order=True)
class Leak:
    """A secret where none may be."""

    kind: str
    place: str
    offset: int

    def __str__(self) -> str:
        """Say what is where, and nothing of it."""
        return f"{self.kind} in {self.place} at byte {self.offset}"


class Canaries:
    """Every secret that is known, and of what kind it is."""

    def __init__(self) -> None:
        self._kinds: dict[bytes, str] = {}

    def add(self, kind: str, secret: str | bytes) -> None:
        """Know a secret. What is too short or too dull to be told from anything is left out."""
        text = secret.encode() if isinstance(secret, str) else secret
        for needle in _needles(text):
            if len(needle) >= SHORTEST and len(set(needle)) >= _LEAST_LETTERS:
                self._kinds.setdefault(needle, kind)

    @property
    def count(self) -> int:
        """How many texts are looked for."""
        return len(self._kinds)

    def harvest(self, folder: Path) -> None:
        """Get to know the secrets in the files of a folder that hold some."""
        for path in _files(folder):
            if is_holder(path.name):
                self._read(path)

    def _read(self, path: Path) -> None:
        try:
            text = path.read_bytes()
        except OSError:
            return
        for kind, pattern in _WRITTEN.items():
            for found in pattern.findall(text):
                self.add(kind, found)
        if b"PRIVATE KEY" in text:
            self.add("private key", text)

    def search(self, *places: Path) -> list[Leak]:
        """Look into every file that has no secret to hold."""
        if not self._kinds:
            return []
        known = [str(place) for place in places if place.exists()]
        skipped = [f"--exclude={name}" for name in HOLDERS]
        found = self._grep(["-r", "-D", "skip", *skipped, *known]) if known else b""
        leaks = []
        for line in found.splitlines():
            path, mark, rest = line.partition(b"\0")
            offset, _, needle = rest.partition(b":")
            if mark and needle in self._kinds:
                leaks.append(Leak(self._kinds[needle], os.fsdecode(path), int(offset)))
        return leaks

    def _grep(self, arguments: list[str]) -> bytes:
        """Read every byte once, for all secrets at a time; they go in by a file without a name."""
        with TemporaryFile() as needles:
            needles.write(b"\n".join(self._kinds))
            needles.seek(0)
            with subprocess.Popen(
                ["grep", "-a", "-b", "-o", "-H", "-Z", "-F", "-f", "-", *arguments],
                stdin=needles,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C"},
            ) as process:
                assert process.stdout is not None
                # Not `communicate`: what that returns is itself searched.
                return process.stdout.read()


class Heap:
    """Much that was said, in one file that only this process can reach, to be searched at once."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 - it lives as long as the heap
        self._starts: list[tuple[int, str]] = []
        self._size = 0

    def put(self, place: str, text: bytes | memoryview) -> None:
        """Keep what was said at a place."""
        self._starts.append((self._size, place))
        self._file.write(text)
        self._file.write(b"\n")
        self._size += len(text) + 1

    def put_segments(self, folder: Path) -> None:
        """Keep what is in Parquet segments of a ledger, which are compressed."""
        for path in _files(folder):
            if path.suffix == ".parquet" and path.parent.name in _SEGMENTS:
                # A test may have spoilt it; then what is left is searched as it is.
                with contextlib.suppress(ValueError, OSError):
                    self._put_segment(path)

    def _put_segment(self, path: Path) -> None:
        # Most runs have none, and this takes long to load.
        import pyarrow.parquet as pq

        for column in pq.read_table(path, use_threads=False).itercolumns():
            for chunk in column.chunks:
                for buffer in filter(None, chunk.buffers()):
                    self.put(f"{path} ({column.type})", memoryview(buffer))

    def search(self, canaries: Canaries) -> list[Leak]:
        """Look into everything."""
        self._file.flush()
        leaks = canaries.search(Path(f"/proc/{os.getpid()}/fd/{self._file.fileno()}"))
        ends = [*self._starts, (self._size + 1, "")]
        return [
            Leak(leak.kind, place, leak.offset - start)
            for leak in leaks
            for (start, place), (end, _) in pairwise(ends)
            if start <= leak.offset < end
        ]

    def close(self) -> None:
        """Forget everything."""
        self._file.close()


def is_holder(name: str) -> bool:
    """Tell whether a file of this name has secrets to hold."""
    return any(fnmatchcase(name, pattern) for pattern in HOLDERS)


def _needles(text: bytes) -> Iterator[bytes]:
    """Yield what to look for: whole lines, because a PEM text is broken in many ways."""
    keys = _PEM.findall(text)
    for key in keys:
        yield from key.splitlines()[:_SECRET_LINES]
    if not keys:
        yield from (line.strip() for line in text.splitlines())


def _files(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names)


def summary(leaks: Iterable[Leak]) -> list[str]:
    """Say every leak once."""
    return [str(leak) for leak in sorted(set(leaks))]
