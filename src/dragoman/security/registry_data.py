"""The registry's data: principals with their keys, and enrolment tokens.

This is the form of the file on disk. Pure but for msgspec, which decodes and encodes it. It holds
no secrets, only their hashes.
"""

from typing import Final

import msgspec

from dragoman.model.names import Principal
from dragoman.security.keys import KeyState

VERSION: Final = 1


class KeyEntry(msgspec.Struct, omit_defaults=True):
    """One key and its state."""

    principal: str = ""
    state: KeyState = KeyState.PENDING
    added_at: float = 0.0
    #: 0: never.
    expires_at: float = 0.0
    #: Of a bearer token: the hash of its secret. Of a password: its slow hash.
    hash: str = ""
    #: Its origin, for listings: an enrolment, a rotation, a handshake.
    note: str = ""

    def state_at(self, now: float) -> KeyState:
        """Return the state at a time: an allowed key may have expired."""
        if self.state is KeyState.ALLOWED and self.expires_at and now >= self.expires_at:
            return KeyState.EXPIRED
        return self.state


class PrincipalEntry(msgspec.Struct, omit_defaults=True):
    """The roles of a principal, and the limits an enrolment put on it."""

    roles: tuple[str, ...] = ()
    #: Globs of services and worker names it may register; empty: only its roles decide.
    services: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class Enrolment(msgspec.Struct, omit_defaults=True):
    """A one-time token for an unattended worker."""

    hash: str
    expires_at: float
    roles: tuple[str, ...] = ("worker",)
    services: tuple[str, ...] = ("*",)
    names: tuple[str, ...] = ("*",)
    #: Lifetime of the enrolled key in seconds; 0: no end.
    key_life: float = 0.0
    #: The key that used it; empty: not used yet.
    used_by: str = ""


class RegistryData(msgspec.Struct, omit_defaults=True):
    """The whole file."""

    version: int = VERSION
    keys: dict[str, KeyEntry] = {}
    principals: dict[str, PrincipalEntry] = {}
    enrolments: dict[str, Enrolment] = {}

    def state_of(self, key: str, now: float) -> KeyState:
        """Return the state of a key."""
        entry = self.keys.get(key)
        return KeyState.UNKNOWN if entry is None else entry.state_at(now)

    def principal_of(self, key: str) -> Principal:
        """Return the principal of a key: its name, or the key itself."""
        entry = self.keys.get(key)
        return Principal(entry.principal or key) if entry is not None else Principal(key)

    def keys_of(self, principal: str) -> list[str]:
        """Return every key of a principal."""
        return [key for key, entry in self.keys.items() if principal in (entry.principal, key)]

    def entry_of(self, principal: str) -> PrincipalEntry:
        """Return a principal's entry; an empty one if there is none."""
        return self.principals.get(principal) or PrincipalEntry()

    def groups_of(self, key: str) -> tuple[str, ...]:
        """Return no groups: the registry gives roles itself."""
        return ()


def read_register(raw: bytes) -> RegistryData:
    """Decode the file. Raises ValueError that names the place."""
    found = msgspec.json.decode(raw, type=RegistryData)
    if found.version != VERSION:
        raise ValueError(f"the registry has version {found.version}, this program knows {VERSION}")
    return found


def write_register(register: RegistryData) -> bytes:
    """Encode the file, indented for people."""
    return msgspec.json.format(msgspec.json.encode(register), indent=1)
