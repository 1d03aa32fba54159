"""Canaries: the secrets that tests make, and the search for leaks of them.

This module holds the secrets and searches for them; `canary_watch` collects them. Secrets made in
this process are known at once. Those of other processes are read from the files that store them.
Nothing here shows a secret: a leak is reported by kind, place and offset.
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

#: Files that may hold a secret, by name. Anywhere else it is a leak.
HOLDERS: Final = {
    "*.key": "credentials of a peer, or the key for a certificate",
    "*.key_secret": "a CURVE pair in the form of pyzmq",
    "*.curve": "a CURVE secret alone",
    "*.seed": "an nkey: of the owner of a nats-server, or of a user",
    "*.token": "the token of a cluster, in the file that `token_file` names",
    "*.creds": "what NATS's own tools hand to a user",
    "*.key.part": "credentials that are being written",
    "*.key.new": "a key that is being copied",
}
#: Folder names of a ledger's Parquet segments.
_SEGMENTS: Final = frozenset({"segments", "sealed"})
#: Shorter texts are no secrets and would be found by chance.
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
    """A secret in a place where none may be."""

    kind: str
    place: str
    offset: int

    def __str__(self) -> str:
        """Return kind, place and offset, without the secret."""
        return f"{self.kind} in {self.place} at byte {self.offset}"


class Canaries:
    """All known secrets and their kinds."""

    def __init__(self) -> None:
        self._kinds: dict[bytes, str] = {}

    def add(self, kind: str, secret: str | bytes) -> None:
        """Add a secret; ignore texts that are too short or have too few distinct characters."""
        text = secret.encode() if isinstance(secret, str) else secret
        for needle in _needles(text):
            if len(needle) >= SHORTEST and len(set(needle)) >= _LEAST_LETTERS:
                self._kinds.setdefault(needle, kind)

    @property
    def count(self) -> int:
        """The number of texts to search for."""
        return len(self._kinds)

    def harvest(self, folder: Path) -> None:
        """Add the secrets from the files of a folder that may hold some."""
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
        """Search all files that may not hold a secret."""
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
        """Search for all secrets in one pass; grep reads them from an unnamed file."""
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
                # Not `communicate`: the watch searches its output.
                return process.stdout.read()


class Heap:
    """Captured output in one unnamed file, searched in one pass."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 - it lives as long as the heap
        self._starts: list[tuple[int, str]] = []
        self._size = 0

    def put(self, place: str, text: bytes | memoryview) -> None:
        """Add the output of a place."""
        self._starts.append((self._size, place))
        self._file.write(text)
        self._file.write(b"\n")
        self._size += len(text) + 1

    def put_segments(self, folder: Path) -> None:
        """Add the contents of Parquet segments, which are compressed on disk."""
        for path in _files(folder):
            if path.suffix == ".parquet" and path.parent.name in _SEGMENTS:
                # A test may have damaged the file; then only its raw bytes are searched.
                with contextlib.suppress(ValueError, OSError):
                    self._put_segment(path)

    def _put_segment(self, path: Path) -> None:
        # Slow to import, and most runs have no segments.
        import pyarrow.parquet as pq

        for column in pq.read_table(path, use_threads=False).itercolumns():
            for chunk in column.chunks:
                for buffer in filter(None, chunk.buffers()):
                    self.put(f"{path} ({column.type})", memoryview(buffer))

    def search(self, canaries: Canaries) -> list[Leak]:
        """Search everything."""
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
        """Remove the file."""
        self._file.close()


def is_holder(name: str) -> bool:
    """Whether a file of this name may hold secrets."""
    return any(fnmatchcase(name, pattern) for pattern in HOLDERS)


def _needles(text: bytes) -> Iterator[bytes]:
    """Yield the texts to search for: single lines, because line breaks of PEM texts vary."""
    keys = _PEM.findall(text)
    for key in keys:
        yield from key.splitlines()[:_SECRET_LINES]
    if not keys:
        yield from (line.strip() for line in text.splitlines())


def _files(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names)


def summary(leaks: Iterable[Leak]) -> list[str]:
    """Return each leak once, as text."""
    return [str(leak) for leak in sorted(set(leaks))]
