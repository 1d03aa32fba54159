"""The key registry: which keys may connect, and for which principal. One file, replaced atomically.

The broker and the command line both use this class, each in its own process. Every change takes a
lock, reads the file again, and replaces it. The broker checks the file several times a second, so
a change takes effect at once.
"""

import fcntl
import hmac
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from dragoman.model.names import Principal
from dragoman.security.files import Stamp, replace_file, stamp_of
from dragoman.security.keys import KeyChange, KeyState, brief, check_key, check_name, hashed
from dragoman.security.passwords import PASSWORD_SCHEME, is_password
from dragoman.security.policy import Policy
from dragoman.security.registry_data import (
    Enrolment,
    KeyEntry,
    PrincipalEntry,
    RegistryData,
    read_register,
    write_register,
)

#: Unknown keys kept for approval; further ones are only refused.
MOST_PENDING: Final = 200
#: Prefixes of bearer and enrolment tokens, so that people and secret scanners recognise them.
TOKEN_MARK: Final = "drgt"
ENROLMENT_MARK: Final = "drge"

OnChange = Callable[[tuple[KeyChange, ...]], None]


class RegistryError(ValueError):
    """The registry cannot make a change; the message gives the reason."""


class EnrolmentRefused(RegistryError):
    """An enrolment token is unknown, used or expired. The message never contains the token."""


class KeyRegistry:
    """The keys of one broker. The file need not exist yet."""

    def __init__(self, path: Path, register: RegistryData) -> None:
        self.path = path
        self._register = register
        self._stamp: Stamp | None = None
        #: Grows whenever the file is read or written: caches of its content are then stale.
        self.reads = 0
        self._listeners: list[OnChange] = []
        #: The state of each key at the last report to listeners.
        self._reported: dict[str, KeyState] = {}
        self._pending: dict[str, KeyEntry] = {}
        #: The key of each principal's password, and the reading that this was made of.
        self._passwords: dict[str, str] = {}
        self._passwords_of = -1
        #: Tells whether another namespace has a key; it must not have two.
        self.elsewhere: Callable[[str], bool] = lambda key: False

    @classmethod
    def open(cls, path: str | Path) -> "KeyRegistry":
        """Read the registry at a path. Raises RegistryError if the file is broken."""
        registry = cls(Path(path), RegistryData())
        registry._read()
        return registry

    # --- queries ------------------------------------------------------------------------------

    def state_of(self, key: str, now: float) -> KeyState:
        """Return the state of a key."""
        return self._register.state_of(key, now)

    def admits(self, key: str, now: float) -> bool:
        """Tell whether a key may connect."""
        return self._register.state_of(key, now) is KeyState.ALLOWED

    def principal_of(self, key: str) -> Principal:
        """Return the principal of a key; a key without a name is its own principal."""
        return self._register.principal_of(key)

    def entry_of(self, principal: str) -> PrincipalEntry:
        """Return the roles of a principal and the limits of what it may register."""
        return self._register.entry_of(principal)

    def groups_of(self, key: str) -> tuple[str, ...]:
        """Return no groups: the registry gives roles itself."""
        return ()

    def keys_of(self, principal: str) -> list[str]:
        """Return every key of a principal, whatever its state."""
        return self._register.keys_of(principal)

    def entries(self) -> dict[str, KeyEntry]:
        """Return every key with its entry."""
        return dict(self._register.keys)

    def principals(self) -> dict[str, PrincipalEntry]:
        """Return every principal that has an entry."""
        return dict(self._register.principals)

    def enrolments(self) -> dict[str, Enrolment]:
        """Return every enrolment token by its id."""
        return dict(self._register.enrolments)

    def check_token(self, secret: str, now: float) -> str | None:
        """Return the key of a bearer token that is allowed now; None for any other text."""
        key = _id_in(secret, TOKEN_MARK)
        entry = self._register.keys.get(f"token:{key}") if key else None
        # Always compare, so that an unknown id takes as long as a wrong secret.
        is_right = hmac.compare_digest(hashed(secret), entry.hash if entry else hashed(""))
        if entry is None or not is_right or entry.state_at(now) is not KeyState.ALLOWED:
            return None
        return f"token:{key}"

    def has_passwords(self, now: float) -> bool:
        """Tell whether anybody may log in with a password."""
        return any(self.admits(key, now) for key in self._password_keys().values())

    def password_of(self, principal: str, now: float) -> tuple[str, str] | None:
        """Return the key and the hash of a principal's password, if it is allowed now."""
        key = self._password_keys().get(principal, "")
        return (key, self._register.keys[key].hash) if self.admits(key, now) else None

    def _password_keys(self) -> dict[str, str]:
        """Return the key of each principal that has a password. Made once for each reading."""
        if self._passwords_of != self.reads:
            found = {e.principal: key for key, e in self._register.keys.items() if is_password(key)}
            self._passwords, self._passwords_of = found, self.reads
        return self._passwords

    # --- changes ------------------------------------------------------------------------------

    def add(
        self,
        key: str,
        principal: str = "",
        *,
        now: float,
        roles: tuple[str, ...] = (),
        state: KeyState = KeyState.ALLOWED,
        expires_at: float = 0.0,
        note: str = "",
    ) -> None:
        """Add a key to a principal, which may have other keys."""
        check_key(key)
        with self._changing() as register:
            if key in register.keys and register.keys[key].state is not KeyState.PENDING:
                raise RegistryError(f"{key} is already in the registry")
            self._require_here(key)
            name = check_name(principal) if principal else ""
            register.keys[key] = KeyEntry(name, state, now, expires_at, note=note)
            if name and roles:
                _give_roles(register, name, roles)

    def new_token(
        self, principal: str, *, now: float, roles: tuple[str, ...] = (), expires_at: float = 0.0
    ) -> str:
        """Make a bearer token; return its secret, which is not stored anywhere."""
        id_, secret = _new_secret(TOKEN_MARK)
        with self._changing() as register:
            name = check_name(principal)
            entry = KeyEntry(name, KeyState.ALLOWED, now, expires_at, hashed(secret))
            register.keys[f"token:{id_}"] = entry
            if roles:
                _give_roles(register, name, roles)
        return secret

    def set_password(
        self,
        principal: str,
        stored: str,
        *,
        now: float,
        roles: tuple[str, ...] = (),
        expires_at: float = 0.0,
    ) -> str:
        """Replace the password of a principal by one with this hash; return its key."""
        # Another password is another key, so the sessions of the old one end.
        key = f"{PASSWORD_SCHEME}:{secrets.token_hex(6)}"
        with self._changing() as register:
            name = check_name(principal)
            for old in [k for k in register.keys_of(name) if is_password(k)]:
                del register.keys[old]
            register.keys[key] = KeyEntry(name, KeyState.ALLOWED, now, expires_at, stored)
            if roles:
                _give_roles(register, name, roles)
        return key

    def approve(self, key: str, principal: str = "", roles: tuple[str, ...] = ()) -> None:
        """Allow a pending key, optionally under a name."""
        with self._changing() as register:
            entry = _entry(register, key)
            if entry.state is KeyState.REVOKED:
                raise RegistryError(f"{key} was revoked for good; make a new key")
            self._require_here(key)
            entry.state = KeyState.ALLOWED
            entry.principal = check_name(principal) if principal else entry.principal
            if roles:
                _give_roles(register, entry.principal or key, roles)

    def revoke(self, key_or_principal: str) -> list[str]:
        """Revoke a key, or every key of a principal; return the revoked keys."""
        with self._changing() as register:
            keys = [key_or_principal] if key_or_principal in register.keys else []
            keys = keys or register.keys_of(key_or_principal)
            if not keys:
                raise RegistryError(f"there is no key or principal {key_or_principal!r}")
            for key in keys:
                register.keys[key].state = KeyState.REVOKED
        return keys

    def revoke_issued(self, key: str, principal: str, now: float) -> None:
        """Revoke all tokens that an issuer gave, or will give, to a principal."""
        with self._changing() as register:
            register.keys[key] = KeyEntry(principal, KeyState.REVOKED, now, note="of an issuer")

    def expire(self, key: str, at: float) -> None:
        """Set the expiry of a key."""
        with self._changing() as register:
            _entry(register, key).expires_at = at

    def set_roles(self, principal: str, roles: tuple[str, ...]) -> None:
        """Replace the roles of a principal."""
        with self._changing() as register:
            if not register.keys_of(principal):
                raise RegistryError(f"there is no principal {principal!r}")
            entry = register.entry_of(principal)
            register.principals[principal] = PrincipalEntry(roles, entry.services, entry.names)

    def new_enrolment(
        self,
        *,
        now: float,
        life: float = 900.0,
        services: tuple[str, ...] = ("*",),
        names: tuple[str, ...] = ("*",),
        roles: tuple[str, ...] = ("worker",),
        key_life: float = 0.0,
    ) -> str:
        """Make a one-time enrolment token; return its secret, which is not stored anywhere."""
        id_, secret = _new_secret(ENROLMENT_MARK)
        with self._changing() as register:
            made = Enrolment(hashed(secret), now + life, roles, services, names, key_life)
            register.enrolments[id_] = made
        return secret

    def enrol(
        self, token: str, key: str, now: float, name: str = "", *, policy: Policy
    ) -> Principal:
        """Allow a key by a one-time token, and mark the token as used.

        The principal gets the name `name`, which must match the token's patterns. Without a name
        the principal is the key itself; the patterns still limit the names of its workers. A name
        to which the policy gives more roles than the token has is refused.
        """
        check_key(key)
        if not self.is_stale:
            _enrolment(self._register, token, now)  # rejects most wrong tokens without disk access
        with self._changing() as register:
            enrolment = _enrolment(register, token, now)
            if register.state_of(key, now) not in (KeyState.UNKNOWN, KeyState.PENDING):
                raise EnrolmentRefused("this key is already in the registry")
            self._require_here(key)
            principal = check_name(name) if name else Principal(key)
            if name and not _is_within(name, enrolment.names):
                raise EnrolmentRefused(f"the token is not for the name {name!r}")
            if register.keys_of(principal) not in ([], [key]):
                raise EnrolmentRefused(f"the name {name!r} already has a key")
            found = [r for r in policy.roles_of(principal) if policy.gives_rights(r)]
            more = [r for r in found if r not in enrolment.roles]
            if more:
                roles = f"the policy gives {principal!r} the role {', '.join(more)}"
                raise EnrolmentRefused(f"{roles}, and the token does not; use another name")
            enrolment.used_by = key
            until = now + enrolment.key_life if enrolment.key_life else 0.0
            register.keys[key] = KeyEntry(name, KeyState.ALLOWED, now, until, note="enrolled")
            register.principals[principal] = PrincipalEntry(
                enrolment.roles, enrolment.services, enrolment.names
            )
        return principal

    def _require_here(self, key: str) -> None:
        if self.elsewhere(key):
            raise RegistryError(f"{brief(key)} is in use elsewhere; make a new key")

    def add_pending(self, key: str, now: float, source: str = "") -> None:
        """Keep an unknown key for approval, at most `MOST_PENDING` of them.

        The next `refresh` writes them all at once: handshakes never wait for the disk.
        """
        if key and len(self._pending) < MOST_PENDING and key not in self._register.keys:
            self._pending[key] = KeyEntry("", KeyState.PENDING, now, note=source)

    def describe_pending(self, key: str, source: str) -> None:
        """Note who shows a pending key, until the next `refresh` writes it."""
        if key in self._pending:
            self._pending[key].note = source

    def _write_pending(self) -> None:
        pending, self._pending = self._pending, {}
        with self._changing() as register:
            waiting = sum(e.state is KeyState.PENDING for e in register.keys.values())
            for key in list(pending)[: max(0, MOST_PENDING - waiting)]:
                register.keys.setdefault(key, pending[key])

    # --- watching -----------------------------------------------------------------------------

    def on_change(self, callback: OnChange) -> None:
        """Call `callback` for every key that changes its state.

        `refresh` calls it, also for changes made through this object.
        """
        self._listeners.append(callback)

    @property
    def is_stale(self) -> bool:
        """Whether the file has changed since it was read."""
        return stamp_of(self.path) != self._stamp

    def refresh(self, now: float) -> tuple[KeyChange, ...]:
        """Check the file and the clock; report what has changed since the last call."""
        # The file first: if the disk takes no pending keys, a revocation must still be read.
        if self.is_stale:
            self._read()
        changes = self._report_changes(now)
        if self._pending:
            self._write_pending()
            changes += self._report_changes(now)
        return changes

    def _report_changes(self, now: float) -> tuple[KeyChange, ...]:
        states = {key: entry.state_at(now) for key, entry in self._register.keys.items()}
        changes = tuple(
            KeyChange(key, self.principal_of(key), self._reported.get(key, KeyState.UNKNOWN), state)
            for key, state in states.items()
            if self._reported.get(key, KeyState.UNKNOWN) is not state
        ) + tuple(
            KeyChange(key, Principal(key), before, KeyState.UNKNOWN)
            for key, before in self._reported.items()
            if key not in states
        )
        self._reported = states
        if changes:
            for report in self._listeners:
                report(changes)
        return changes

    # --- the file -----------------------------------------------------------------------------

    def _read(self) -> None:
        stamp = stamp_of(self.path)
        try:
            raw = self.path.read_bytes() if stamp is not None else b"{}"
            self._register = read_register(raw)
        except (OSError, ValueError, msgspec.DecodeError) as error:
            raise RegistryError(f"{self.path}: the registry cannot be read: {error}") from None
        self._stamp = stamp
        self.reads += 1

    @contextmanager
    def _changing(self) -> Iterator[RegistryData]:
        """Change the newest data; if the block raises, nothing changes."""
        self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._read()
            try:
                yield self._register
            except BaseException:
                self._read()
                raise
            self._write()
        finally:
            os.close(lock)

    def _write(self) -> None:
        replace_file(self.path, write_register(self._register))
        self.reads += 1
        self._stamp = stamp_of(self.path)


def _entry(register: RegistryData, key: str) -> KeyEntry:
    if key not in register.keys:
        raise RegistryError(f"there is no key {key!r}; `dragoman keys list` shows all keys")
    return register.keys[key]


def _give_roles(register: RegistryData, principal: str, roles: tuple[str, ...]) -> None:
    entry = register.entry_of(principal)
    both = tuple(dict.fromkeys((*entry.roles, *roles)))
    register.principals[principal] = PrincipalEntry(both, entry.services, entry.names)


def _enrolment(register: RegistryData, token: str, now: float) -> Enrolment:
    """Return a token's enrolment. Raises EnrolmentRefused if it cannot be used."""
    id_ = enrolment_id(token)
    found = register.enrolments.get(id_) if id_ else None
    if found is None or not hmac.compare_digest(found.hash, hashed(token)):
        raise EnrolmentRefused("no such enrolment token")
    if found.used_by:
        raise EnrolmentRefused("the enrolment token was already used; ask for a new one")
    if now >= found.expires_at:
        raise EnrolmentRefused("the enrolment token has expired; ask for a new one")
    return found


def enrolment_id(token: str) -> str:
    """Return the public id in an enrolment token; empty if it is none."""
    return _id_in(token, ENROLMENT_MARK)


def _is_within(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _new_secret(mark: str) -> tuple[str, str]:
    """Return a public id, and a secret that contains it."""
    id_ = secrets.token_hex(6)
    return id_, f"{mark}_{id_}_{secrets.token_urlsafe(32)}"


def _id_in(secret: str, mark: str) -> str:
    """Return the public id in a secret; empty if the secret is not ours."""
    prefix, _, rest = secret.partition("_")
    id_, _, tail = rest.partition("_")
    return id_ if prefix == mark and tail and len(secret) < 200 else ""
