"""Keys and their states. Pure: no disk, no clock, no randomness.

A *key* is what a transport proved: `scheme:value`. It belongs to a *principal*, a name an operator
gave it. A principal may have several keys at once (a rotation, two devices). A key without a name
is its own principal.
"""

import re
from enum import StrEnum
from hashlib import sha256
from typing import Final

from dragoman.model.names import Principal
from dragoman.model.value import value

#: The key of a peer that proved nothing.
NO_KEY: Final = ""

_FORMS: Final[dict[str, re.Pattern[str]]] = {
    "curve": re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}"),
    "tls": re.compile(r"[0-9a-f]{64}"),
    "nkey": re.compile(r"U[A-Z2-7]{55}"),
    "token": re.compile(r"[0-9a-z]{6,32}"),
}
SCHEMES: Final = tuple(_FORMS)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
#: Names the broker uses itself.
_RESERVED: Final = ("anonymous", "house")


class KeyState(StrEnum):
    """The state of a key. Only ALLOWED keys may connect."""

    UNKNOWN = "unknown"  #: never seen
    PENDING = "pending"  #: connected once; waits for approval
    ALLOWED = "allowed"
    REVOKED = "revoked"  #: by an operator, for good
    EXPIRED = "expired"  #: its lifetime is over


@value
class KeyChange:
    """One key's change of state."""

    key: str
    principal: Principal
    before: KeyState
    after: KeyState


def check_key(key: str) -> str:
    """Return a well-formed key. Raises ValueError that names the schemes."""
    scheme, _, encoded = key.partition(":")
    form = _FORMS.get(scheme)
    if form is None:
        raise ValueError(
            f"{brief(key)!r} is no key: a key begins with {', '.join(SCHEMES)} and `:`"
        )
    if not form.fullmatch(encoded):
        raise ValueError(f"{brief(key)!r} is not a well-formed {scheme} key")
    return key


def check_name(name: str) -> Principal:
    """Return a valid principal name. Raises ValueError."""
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise ValueError(
            f"{name!r} is no name for a principal: letters, digits and . _ @ + - (at most 100), "
            f"and not {' or '.join(_RESERVED)}"
        )
    return Principal(name)


def brief(key: str) -> str:
    """Shorten a key for listings and records; the start is enough to find it."""
    scheme, colon, encoded = key.partition(":")
    return key if len(encoded) <= 16 else f"{scheme}{colon}{encoded[:12]}..."


def hashed(secret: str) -> str:
    """Return the hash the registry stores. Our secrets are long and random: SHA-256 is enough."""
    return sha256(secret.encode()).hexdigest()
