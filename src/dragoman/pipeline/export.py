"""An export as Python reads it: the manifest, and the segments, checked against it."""

import hashlib
from dataclasses import dataclass

from dragoman.pipeline.manifest import (
    ExportedSegment,
    ManifestDamaged,
    SegmentDamaged,
    SegmentMissing,
    SegmentRange,
    parse_manifest,
    plan,
)
from dragoman.pipeline.storage import join, read_bytes


@dataclass(frozen=True)
class Export:
    """The folder or URL of an export."""

    path: str

    @property
    def manifest(self) -> str:
        """The location of the manifest."""
        return join(self.path, "manifest.json")

    def segments(self) -> tuple[ExportedSegment, ...]:
        """Return the segments of the manifest."""
        return parse_at(self.manifest, self.read_manifest())

    def read_manifest(self) -> bytes:
        """Return the manifest as it is stored."""
        try:
            return read_bytes(self.manifest)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"there is no manifest at {self.manifest}. The broker exports its records every "
                "minute and when it stops; `dragoman ledger seal` exports them now"
            ) from error

    def after(self, seq: int, upto: int | None = None) -> list[SegmentRange]:
        """Return what to read to get every record after a position, or so many of them."""
        return plan(self.segments(), seq, upto)

    def read(self, segment: ExportedSegment) -> bytes:
        """Return the bytes of a segment; raises `SegmentError` if they are not those exported."""
        try:
            data = read_bytes(join(self.path, segment.file))
        except FileNotFoundError as error:
            reason = f"{segment.file} does not exist"
            raise SegmentMissing(reason, segment.first, segment.last) from error
        if hashlib.sha256(data).hexdigest() != segment.sha256:
            reason = f"{segment.file} differs from the manifest"
            raise SegmentDamaged(reason, segment.first, segment.last)
        return data


def parse_at(uri: str, data: bytes) -> tuple[ExportedSegment, ...]:
    """Parse the manifest at a location; raises ManifestDamaged with its name."""
    try:
        return parse_manifest(data.decode())
    except ValueError as error:
        raise ManifestDamaged(
            f"{uri} is damaged: {error}. Nothing was changed; restore this file from a copy"
        ) from None
