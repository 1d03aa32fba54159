"""Anchors: signed heads of the ledger, to be kept out of reach of the broker's machine.

The hash chain finds changed records. It cannot find that the last records are gone, if the head
file is cut back with them. An anchor elsewhere names a record that the ledger must still have.
"""

import os
from pathlib import Path

import msgspec
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from dragoman.security.files import replace_file


class BadAnchor(ValueError):
    """A line is no anchor, or its signature is wrong. The message names the line."""


class Anchor(msgspec.Struct):
    """The link of one record of the hash chain, signed by the broker."""

    at: float
    seq: int
    link: str
    signature: str = ""

    def signed_text(self) -> bytes:
        """Return what the signature covers."""
        return f"dragoman anchor {self.seq} {self.link} {self.at:.3f}".encode()


def open_signing_key(path: Path) -> SigningKey:
    """Read the broker's signing key, or make one. Raises ValueError that names the file."""
    if not path.exists():
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        replace_file(path, os.urandom(32).hex().encode() + b"\n")
    try:
        return SigningKey(bytes.fromhex(path.read_text().strip()))
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path}: cannot read the key of anchors: {error}") from None


def sign(key: SigningKey, seq: int, link: str, at: float) -> bytes:
    """Return an anchor as one JSON line."""
    anchor = Anchor(round(at, 3), seq, link)
    anchor.signature = key.sign(anchor.signed_text()).signature.hex()
    return msgspec.json.encode(anchor) + b"\n"


def read_anchors(text: bytes, public: bytes) -> dict[int, str]:
    """Check anchors, one a line; return their links by record. Raises BadAnchor."""
    key, found = VerifyKey(public), dict[int, str]()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            anchor = msgspec.json.decode(line, type=Anchor)
            key.verify(anchor.signed_text(), bytes.fromhex(anchor.signature))
        except (msgspec.DecodeError, ValueError, BadSignatureError) as error:
            raise BadAnchor(f"line {number} is no anchor of this broker: {error}") from None
        if found.setdefault(anchor.seq, anchor.link) != anchor.link:
            raise BadAnchor(f"line {number} contradicts an earlier anchor of record {anchor.seq}")
    return found
