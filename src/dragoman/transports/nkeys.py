"""NATS's nkeys: Ed25519 key pairs in NATS's text form.

The text is base 32 of one prefix byte (two in a seed), the 32 key bytes and a CRC-16 of both.
`cryptography` makes the signatures.
"""

import base64
import binascii
import re
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_SEED: Final = 18 << 3
_USER: Final = 20 << 3
_RAW: Final = 32
#: A section of a `.creds` file, as NATS's tools write it.
_PART: Final = re.compile(r"-+BEGIN ([A-Z ]+?)-+\s+(\S+)\s+-+END")


class Nkey:
    """A user's key pair."""

    __slots__ = ("_private", "_raw", "public")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._private = Ed25519PrivateKey.from_private_bytes(raw)
        public = self._private.public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw
        )
        #: The public key, `U...`.
        self.public = _text(bytes([_USER]) + public)

    def __repr__(self) -> str:
        """Show the public key."""
        return f"Nkey({self.public})"

    @classmethod
    def new(cls) -> "Nkey":
        """Make a new pair."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def from_seed(cls, seed: str) -> "Nkey":
        """Read a seed, `SU...`. Raises ValueError; its text does not contain the seed."""
        try:
            data = base64.b32decode(seed + "=" * (-len(seed) % 8))
        except ValueError:
            data = b""
        body, sum_ = data[:-2], data[-2:]
        is_user = len(body) == _RAW + 2 and body[0] & 0xF8 == _SEED
        is_user = is_user and ((body[0] & 7) << 5 | body[1] >> 3) == _USER
        if not is_user or _sum(body) != sum_:
            raise ValueError("this is not the seed of a NATS user (SU...)")
        return cls(body[2:])

    @property
    def seed(self) -> str:
        """The secret half, `SU...`."""
        return _text(bytes([_SEED | _USER >> 5, (_USER & 31) << 3]) + self._raw)

    def sign(self, nonce: str) -> bytes:
        """Sign a server's nonce; return the signature in base 64, as NATS sends it."""
        return base64.b64encode(self._private.sign(nonce.encode()))


def read_secret(text: str) -> tuple[Nkey, str]:
    """Read a seed, alone or in a `.creds` file; return the pair and the JWT, empty if none.

    Raises ValueError; its text does not contain the secret.
    """
    found = dict(_PART.findall(text))
    seed = found.get("USER NKEY SEED", text).strip()
    return Nkey.from_seed(seed), found.get("NATS USER JWT", "").strip()


def _text(body: bytes) -> str:
    return base64.b32encode(body + _sum(body)).decode().rstrip("=")


def _sum(body: bytes) -> bytes:
    return binascii.crc_hqx(body, 0).to_bytes(2, "little")
