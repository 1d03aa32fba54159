"""What the messages of the replicated ledger contain, and their bytes.

Each message names the stream sequence that it follows, so that no two messages are equal. An append
carries the rows as they are stored, with checksums and links: a copy needs no audit key to be equal
to the original.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from dragoman.ledger.base import LedgerDamaged
from dragoman.ledger.rows import Row

#: Raise it when a message changes in a way that an older version cannot read.
FORMAT: Final = 1


class _Message(msgspec.Struct, array_like=True, kw_only=True):
    """What every message has."""

    format: int = FORMAT
    #: The stream sequence that it follows.
    after: int
    #: Counts leaders: each one has a higher epoch than all before it.
    epoch: int


class Appended(_Message, tag="append"):
    """Records that one append wrote, and the state before them."""

    first: int
    last: int
    chain: int  #: the checksum of the record before `first`
    link: bytes  #: the link of the record before `first`
    rows: list[Row]  #: fields, checksum, checksum of the body, link
    bodies: list[tuple[int, bytes]]


class CheckpointMoved(_Message, tag="checkpoint"):
    """A named reader has read up to a record; None: it is forgotten."""

    name: str
    seq: int | None


class Retained(_Message, tag="retain"):
    """Records before `first` are removed. Contains what earlier messages would have told."""

    first: int
    chain: int  #: the checksum of the record before `first`
    link: bytes  #: the link of the record before `first`
    checkpoints: dict[str, int]


LedgerMessage: TypeAlias = Appended | CheckpointMoved | Retained

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final[Callable[[bytes], LedgerMessage]] = msgspec.msgpack.Decoder(LedgerMessage).decode


def encode(message: LedgerMessage) -> bytes:
    """Return the bytes of a message."""
    return _encode(message)


def decode(data: bytes) -> LedgerMessage:
    """Read a message. Raises LedgerDamaged if it is none, or of a newer format."""
    try:
        message = _decode(data)
    except msgspec.MsgspecError as error:
        raise LedgerDamaged(f"a message of the ledger's stream is unreadable: {error}", 0, 0) from (
            error
        )
    if message.format > FORMAT:
        raise LedgerDamaged(
            f"a message of the ledger's stream has format {message.format}, this version reads"
            f" {FORMAT}: upgrade this node",
            0,
            0,
        )
    return message
