"""The identity of a peer: from a proved key to a principal with roles and limits. Pure."""

from typing import Final, Protocol

from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import ANONYMOUS, Principal
from dragoman.model.value import value
from dragoman.security.allowances import Allowance
from dragoman.security.keys import NO_KEY, KeyState
from dragoman.security.policy import Policy
from dragoman.security.registry_data import PrincipalEntry

_REMEMBERED: Final = 10_000
_REFUSAL: Final = {
    KeyState.UNKNOWN: "this key is unknown",
    KeyState.PENDING: "this key waits for approval",
    KeyState.REVOKED: "this key was revoked",
    KeyState.EXPIRED: "this key has expired",
}


class KeyLookup(Protocol):
    """The registry as the gate uses it."""

    def state_of(self, key: str, now: float) -> KeyState:
        """Return the state of a key."""
        ...

    def principal_of(self, key: str) -> Principal:
        """Return the principal of a key."""
        ...

    def entry_of(self, principal: str) -> PrincipalEntry:
        """Return the roles of a principal and the limits of what it may register."""
        ...

    def groups_of(self, key: str) -> tuple[str, ...]:
        """Return the groups that a key's issuer names; only tokens of issuers have groups."""
        ...


@value
class PeerIdentity:
    """The sender of a message; `fault` is set if its messages are refused."""

    principal: Principal
    roles: tuple[str, ...]
    entry: PrincipalEntry
    allowance: Allowance
    fault: Fault | None = None


class PeerIdentities:
    """A cache of identities by key; it is cleared when a key or the policy changes."""

    def __init__(self, keys: KeyLookup, policy: Policy) -> None:
        self._keys = keys
        self._policy = policy
        self._known: dict[str, PeerIdentity] = {}

    def of_key(self, key: str, now: float) -> PeerIdentity:
        """Return the identity behind a key; the empty key is `anonymous`."""
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[key] = self._make(key, now)
        return found

    def roles_of(self, principal: Principal, key: str = NO_KEY) -> tuple[str, ...]:
        """Return the roles of a principal, with those of the groups of a key."""
        groups = self._keys.groups_of(key) if key else ()
        return self._policy.roles_of(principal, self._keys.entry_of(principal).roles, groups)

    def forget(self) -> None:
        """Clear the cache."""
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
            fault = Fault(FaultCode.DENIED, _REFUSAL[state])
        roles = policy.roles_of(principal, entry.roles, self._keys.groups_of(key))
        return PeerIdentity(principal, roles, entry, policy.allowance_of(principal), fault)
