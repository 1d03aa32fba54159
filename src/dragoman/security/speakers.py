"""Whoever speaks: from the key that was proved to a principal with roles and bounds. Pure."""

from typing import Final, Protocol

from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import ANONYMOUS, Principal
from dragoman.model.value import value
from dragoman.security.allowances import Allowance
from dragoman.security.keys import NO_KEY, KeyState
from dragoman.security.policy import Policy
from dragoman.security.register import PrincipalEntry

_REMEMBERED: Final = 10_000
_WHY_NOT: Final = {
    KeyState.UNKNOWN: "nobody here knows this key",
    KeyState.PENDING: "this key waits for approval",
    KeyState.REVOKED: "this key was revoked",
    KeyState.EXPIRED: "this key's time is over",
}


class KeyLookup(Protocol):
    """What the gate asks the registry."""

    def state_of(self, key: str, now: float) -> KeyState:
        """Return where a key stands."""
        ...

    def principal_of(self, key: str) -> Principal:
        """Return whom a key speaks for."""
        ...

    def entry_of(self, principal: str) -> PrincipalEntry:
        """Return the roles of a principal and the bounds of what it may register."""
        ...


@value
class PeerIdentity:
    """Whoever a message came from: who they are, and why they may not be heard, if so."""

    principal: Principal
    roles: tuple[str, ...]
    entry: PrincipalEntry
    allowance: Allowance
    fault: Fault | None = None


class PeerIdentities:
    """Speakers by key; they are remembered until a key or the policy changes."""

    def __init__(self, keys: KeyLookup, policy: Policy) -> None:
        self._keys = keys
        self._policy = policy
        self._known: dict[str, PeerIdentity] = {}

    def of_key(self, key: str, now: float) -> PeerIdentity:
        """Say who proved a key; the empty one proves nobody."""
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[key] = self._make(key, now)
        return found

    def roles_of(self, principal: Principal) -> tuple[str, ...]:
        """Return the roles of a principal, whatever key it spoke with."""
        return self._policy.roles_of(principal, self._keys.entry_of(principal).roles)

    def forget(self) -> None:
        """Ask the registry again about everybody."""
        self._known.clear()

    def _make(self, key: str, now: float) -> PeerIdentity:
        policy = self._policy
        if key == NO_KEY:
            roles = policy.roles_of(ANONYMOUS)
            return PeerIdentity(ANONYMOUS, roles, PrincipalEntry(), policy.allowance_of(ANONYMOUS))
        principal, state = self._keys.principal_of(key), self._keys.state_of(key, now)
        entry = self._keys.entry_of(principal)
        fault = None
        if state is not KeyState.ALLOWED:
            fault = Fault(FaultCode.DENIED, _WHY_NOT[state])
        roles = policy.roles_of(principal, entry.roles)
        return PeerIdentity(principal, roles, entry, policy.allowance_of(principal), fault)
