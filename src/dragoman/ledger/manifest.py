"""The manifest of sealed segments: which files there are, and which records each holds.

The manifest is the contract with readers: they ignore files that it does not list. It is written
under a temporary name, synced and renamed; then the directory is synced.

This module does not read segments, and does not load the Parquet library.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from dragoman.ledger.atomic_file import rename_durably
from dragoman.ledger.base import LedgerError
from dragoman.model.record import VERSION
from dragoman.model.value import field, value

MANIFEST: Final = "manifest.json"
TEMPORARY: Final = ".tmp"


@value
class SealedSegment:
    """One entry of the manifest."""

    file: str  #: name, beside the manifest
    first: int
    last: int
    rows: int
    bytes: int
    sha256: str
    min_at: float
    max_at: float
    schema_version: int = VERSION


@value
class Manifest:
    """Every sealed segment, in order, without gaps between them."""

    version: int = 1
    segments: list[SealedSegment] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The oldest record of a segment; 0 if there is none."""
        return self.segments[0].first if self.segments else 0

    @property
    def last(self) -> int:
        """The newest sealed record; 0 if there is none."""
        return self.segments[-1].last if self.segments else 0


def segment_name(first: int, last: int) -> str:
    """Return the file name of a segment; names sort as their records do."""
    return f"seg-{first:020d}-{last:020d}.parquet"


def check_segment(directory: Path, segment: SealedSegment) -> list[str]:
    """Return what is wrong with the file of a segment."""
    path = directory / segment.file
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return [f"{path}: records {segment.first} to {segment.last}: {error.strerror}"]
    if found != segment.sha256:
        return [f"{path}: records {segment.first} to {segment.last} do not match the manifest"]
    return []


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest; a missing one is empty."""
    path = directory / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return Manifest()
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise LedgerError(f"{path} is damaged: {error}; restore it from a copy") from None


def write_manifest(directory: Path, manifest: Manifest, step: Callable[[str], None]) -> None:
    """Replace the manifest atomically."""
    path = directory / MANIFEST
    draft = path.with_name(path.name + TEMPORARY)
    step("write manifest")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    rename_durably(draft, path, step)
