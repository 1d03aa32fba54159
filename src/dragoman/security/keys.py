"""Keys and the states they are in. Pure: no disk, no clock, no randomness.

A *key* is what a transport proved: `scheme:value`. It speaks for a *principal*, a name that people
gave it. A principal may have several keys at once (a rotation, a laptop and a phone); a key
that nobody named is its own principal.
"""

import re
from enum import StrEnum
from hashlib import sha256
from typing import Final

from dragoman.model.names import Principal
from dragoman.model.value import value

#: What proved nothing.
NO_KEY: Final = ""

_FORMS: Final[dict[str, re.Pattern[str]]] = {
    "curve": re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}"),
    "tls": re.compile(r"[0-9a-f]{64}"),
    "nkey": re.compile(r"U[A-Z2-7]{55}"),
    "token": re.compile(r"[0-9a-z]{6,32}"),
}
SCHEMES: Final = tuple(_FORMS)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
#: Names that mean somebody else.
_RESERVED: Final = ("anonymous", "house")


class KeyState(StrEnum):
    """Where a key stands. Only ALLOWED ones may speak."""

    UNKNOWN = "unknown"  #: never seen
    PENDING = "pending"  #: seen, or enrolled without consent; waits for a person
    ALLOWED = "allowed"
    REVOKED = "revoked"  #: by a person, for good
    EXPIRED = "expired"  #: its time is over


@value
class KeyChange:
    """One key's move from a state to another."""

    key: str
    principal: Principal
    before: KeyState
    after: KeyState


def check_key(key: str) -> str:
    """Return a key that has a form. Raises ValueError that says which forms there are."""
    scheme, _, said = key.partition(":")
    form = _FORMS.get(scheme)
    if form is None:
        raise ValueError(f"{brief(key)!r} is no key: it begins with {', '.join(SCHEMES)} and `:`")
    if not form.fullmatch(said):
        raise ValueError(f"{brief(key)!r} has not the form of a key of scheme {scheme}")
    return key


def check_name(name: str) -> Principal:
    """Return the name of a principal. Raises ValueError if it is none."""
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise ValueError(
            f"{name!r} is no name for a principal: letters, digits and . _ @ + - (at most 100), "
            f"and not {' or '.join(_RESERVED)}"
        )
    return Principal(name)


def brief(key: str) -> str:
    """Shorten a key for people and records; still enough to find it."""
    scheme, colon, said = key.partition(":")
    return key if len(said) <= 16 else f"{scheme}{colon}{said[:12]}..."


def hashed(secret: str) -> str:
    """Return what is kept of a secret. Secrets here are long and random, so one hash is enough."""
    return sha256(secret.encode()).hexdigest()
