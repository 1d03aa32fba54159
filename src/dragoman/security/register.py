"""What the registry holds, as values: principals with their keys, and enrolment tokens.

The form of the file on disk, and the rules for changing it that need no disk. Pure but for msgspec,
which reads and writes the form. Secrets are never in it: only their hashes.
"""

from typing import Final

import msgspec

from dragoman.model.names import Principal
from dragoman.security.keys import KeyState

VERSION: Final = 1


class KeyEntry(msgspec.Struct, omit_defaults=True):
    """One key and where it stands."""

    principal: str = ""
    state: KeyState = KeyState.PENDING
    added_at: float = 0.0
    #: 0: never.
    expires_at: float = 0.0
    #: Of a bearer token: the hash of its secret.
    hash: str = ""
    #: Where it came from: an enrolment, a rotation, a handshake.
    note: str = ""

    def state_at(self, now: float) -> KeyState:
        """Return the state with the passing of time taken into account."""
        if self.state is KeyState.ALLOWED and self.expires_at and now >= self.expires_at:
            return KeyState.EXPIRED
        return self.state


class PrincipalEntry(msgspec.Struct, omit_defaults=True):
    """What is said of a principal beside the policy."""

    roles: tuple[str, ...] = ()
    #: Globs it may register within; none: what its roles say is all.
    services: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class Enrolment(msgspec.Struct, omit_defaults=True):
    """A one-time token for a worker nobody attends to."""

    hash: str
    expires_at: float
    roles: tuple[str, ...] = ("worker",)
    services: tuple[str, ...] = ("*",)
    names: tuple[str, ...] = ("*",)
    #: How long the key that it lets in may speak, in seconds; 0: for ever.
    key_life: float = 0.0
    #: The key that used it; empty: nobody yet.
    used_by: str = ""


class RegistryData(msgspec.Struct, omit_defaults=True):
    """The whole file."""

    version: int = VERSION
    keys: dict[str, KeyEntry] = {}
    principals: dict[str, PrincipalEntry] = {}
    enrolments: dict[str, Enrolment] = {}

    def state_of(self, key: str, now: float) -> KeyState:
        """Return where a key stands."""
        entry = self.keys.get(key)
        return KeyState.UNKNOWN if entry is None else entry.state_at(now)

    def principal_of(self, key: str) -> Principal:
        """Return whom a key speaks for: the name it was given, or itself."""
        entry = self.keys.get(key)
        return Principal(entry.principal or key) if entry is not None else Principal(key)

    def keys_of(self, principal: str) -> list[str]:
        """Return every key that speaks for a principal."""
        return [key for key, entry in self.keys.items() if principal in (entry.principal, key)]

    def entry_of(self, principal: str) -> PrincipalEntry:
        """Return what is said of a principal."""
        return self.principals.get(principal) or PrincipalEntry()


def read_register(raw: bytes) -> RegistryData:
    """Read the file's form. Raises ValueError that names the place."""
    found = msgspec.json.decode(raw, type=RegistryData)
    if found.version != VERSION:
        raise ValueError(f"the registry has version {found.version}, this program knows {VERSION}")
    return found


def write_register(register: RegistryData) -> bytes:
    """Write the file's form, for people to read as well."""
    return msgspec.json.format(msgspec.json.encode(register), indent=1)
