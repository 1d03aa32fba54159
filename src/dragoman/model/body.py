"""Bodies: the content of requests and replies, opaque to the core.

A body keeps the frames of its own dialect, so that between peers of one dialect it passes through
byte for byte. The body codec of another dialect converts it; nothing in between reads it.
"""

from hashlib import blake2b
from struct import Struct
from typing import Final

from dragoman.model.value import value

_LENGTH: Final = Struct(">I")
#: Copying a new hash object costs half of creating one.
_BEGUN: Final = blake2b(digest_size=16)
#: Bytes of the last part from which hashing each piece is cheaper than joining them first.
_LARGE: Final = 16 * 1024


@value
class Body:
    """The frames of a request or reply, and the dialect they are encoded in."""

    dialect: str
    parts: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """Bytes in all parts."""
        return sum(map(len, self.parts))

    def digest(self) -> str:
        """Hash the content: equal digests mean equal dialect and parts."""
        hashed = _BEGUN.copy()
        pieces = _pieces(self)
        if len(pieces[-1]) < _LARGE:
            hashed.update(b"".join(pieces))
        else:
            for piece in pieces:
                hashed.update(piece)
        return hashed.hexdigest()


EMPTY: Final = Body("")


def pack(body: Body) -> bytes:
    """Write a body as one blob: length-prefixed dialect name, then each part likewise."""
    return b"".join(_pieces(body))


def _pieces(body: Body) -> list[bytes]:
    name = body.dialect.encode()
    out = [len(name).to_bytes(4), name]
    for part in body.parts:
        out.append(len(part).to_bytes(4))
        out.append(part)
    return out


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
