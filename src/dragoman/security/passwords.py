"""Passwords of people: a slow hash (scrypt), its text form, and what a password must be. Pure.

A password is a key of its principal, `password:` and a random id. The registry has only its hash.
"""

import base64
import hmac
import re
import unicodedata
from hashlib import scrypt
from typing import Final

PASSWORD_SCHEME: Final = "password"
#: Characters of a password.
SHORTEST: Final = 12
LONGEST: Final = 1024
#: Cost: 32 MiB of memory, about a third of a second. `_LOG_N` is the logarithm of N.
_LOG_N: Final = 15
_R: Final = 8
_P: Final = 3
_MEMORY: Final = 64 * 1024 * 1024
_FORM: Final = re.compile(
    r"scrypt\$(\d{1,2})\$(\d{1,2})\$(\d{1,2})\$([\w+/=]+)\$([\w+/=]+)", re.ASCII
)


def is_password(key: str) -> bool:
    """Tell whether a key of the registry is a password."""
    return key.startswith(f"{PASSWORD_SCHEME}:")


def check_password(password: str, name: str) -> str:
    """Return a password that may be set. Raises ValueError; the message never contains it."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise ValueError(f"a password has {SHORTEST} to {LONGEST} characters")
    if not password.isprintable():
        raise ValueError("a password has no control characters")
    if len(set(password)) < 5 or name.lower() in password.lower():
        raise ValueError("this password is easy to guess: use other words, without the name")
    return password


def hash_password(password: str, salt: bytes) -> str:
    """Return the text that the registry stores. Takes a while, on purpose."""
    digest = _digest(password, salt, _LOG_N, _R, _P)
    parts = (str(_LOG_N), str(_R), str(_P), _text(salt), _text(digest))
    return "$".join(("scrypt", *parts))


def is_right(password: str, stored: str) -> bool:
    """Tell whether a password has a stored hash. Takes as long for a wrong one."""
    found = _FORM.fullmatch(stored)
    if found is None:
        return False
    log_n, r, p = (int(found[n]) for n in (1, 2, 3))
    salt, digest = (base64.b64decode(found[n]) for n in (4, 5))
    return hmac.compare_digest(_digest(password, salt, log_n, r, p), digest)


def _digest(password: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    # Keyboards write the same letter in several ways. Lone surrogates cannot be encoded.
    raw = unicodedata.normalize("NFKC", password).encode("utf-8", "replace")
    return scrypt(raw, salt=salt, n=1 << log_n, r=r, p=p, maxmem=_MEMORY, dklen=32)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


#: Compared for an unknown name: it costs as much as a known one, and no password is right.
NOBODY: Final = "$".join(
    ("scrypt", str(_LOG_N), str(_R), str(_P), _text(bytes(16)), _text(bytes(32)))
)
