"""Bodies: what clients and workers say to each other, opaque to the core.

A body is kept as the frames its own dialect carries, so that between peers of one dialect it
passes through byte for byte. Another dialect dresses it anew at the edge; nothing in between
looks inside.
"""

from hashlib import blake2b
from struct import Struct
from typing import Final

from dragoman.model.value import value

_LENGTH: Final = Struct(">I")
#: A copy of a hash that was begun costs half of beginning one.
_BEGUN: Final = blake2b(digest_size=16)


@value
class Body:
    """The frames of a request or reply, and the dialect that dressed them."""

    dialect: str
    parts: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """Bytes in all parts."""
        return sum(map(len, self.parts))

    def digest(self) -> str:
        """Fingerprint the content: equal digests mean equal dialect and parts."""
        hashed = _BEGUN.copy()
        hashed.update(pack(self))
        return hashed.hexdigest()


EMPTY: Final = Body("")


def pack(body: Body) -> bytes:
    """Write a body as one blob: length-prefixed dialect name, then each part likewise."""
    out = []
    for part in (body.dialect.encode(), *body.parts):
        out += [_LENGTH.pack(len(part)), part]
    return b"".join(out)


def unpack(blob: bytes) -> Body:
    """Read what `pack` wrote. Raises ValueError on a damaged blob."""
    parts, at = [], 0
    while at < len(blob):
        if at + 4 > len(blob):
            raise ValueError("body blob ends inside a length")
        (size,) = _LENGTH.unpack_from(blob, at)
        at += 4
        if at + size > len(blob):
            raise ValueError("body blob ends inside a part")
        parts.append(blob[at : at + size])
        at += size
    if not parts:
        raise ValueError("body blob is empty")
    return Body(parts[0].decode(), tuple(parts[1:]))
