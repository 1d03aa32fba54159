"""Verified tokens of other issuers, as keys of principals. Pure.

Each token is a key of its own: two tokens of one principal may name different groups, and each
gives the roles of its own groups only. The registry knows these keys only to revoke a principal.
"""

from collections import OrderedDict
from hashlib import sha256
from typing import Final

from dragoman.model.names import Principal
from dragoman.model.value import value
from dragoman.security.identities import KeyLookup
from dragoman.security.keys import KeyState
from dragoman.security.registry_data import PrincipalEntry

SCHEME: Final = "jwt"
#: Tokens kept; a token that was dropped is verified again when it is next used.
MOST_TOKENS: Final = 20_000


@value
class IssuedToken:
    """What a verified token says, and until when."""

    principal: Principal
    groups: tuple[str, ...]
    expires_at: float
    #: When it was last verified.
    checked_at: float = 0.0


def is_issued(key: str) -> bool:
    """Tell whether a key is a token of an issuer."""
    return key.startswith(f"{SCHEME}:")


def token_key(token: str) -> str:
    """Return the key of a token. It does not tell the token."""
    return f"{SCHEME}:{sha256(token.encode()).hexdigest()[:32]}"


def revocation_key(principal: str) -> str:
    """Return the key under which the registry revokes all tokens of a principal."""
    return f"{SCHEME}:{principal}"


class TokenKeys:
    """The keys of the registry, and the verified tokens."""

    def __init__(self, registry: KeyLookup) -> None:
        self._registry = registry
        self._tokens: OrderedDict[str, IssuedToken] = OrderedDict()

    def add(self, key: str, token: IssuedToken) -> None:
        """Keep a verified token."""
        self._tokens[key] = token
        self._tokens.move_to_end(key)
        if len(self._tokens) > MOST_TOKENS:
            self._tokens.popitem(last=False)

    def find(self, key: str) -> IssuedToken | None:
        """Return a verified token; None if it is not kept."""
        return self._tokens.get(key)

    def tokens_of(self, principal: str) -> list[str]:
        """Return the keys of a principal's tokens."""
        return [key for key, token in self._tokens.items() if token.principal == principal]

    def remove_expired(self, now: float) -> list[tuple[str, IssuedToken]]:
        """Remove the tokens that have expired, and return them."""
        gone = [(key, token) for key, token in self._tokens.items() if now >= token.expires_at]
        for key, _ in gone:
            del self._tokens[key]
        return gone

    # --- as the gate uses them ----------------------------------------------------------------

    def state_of(self, key: str, now: float) -> KeyState:
        """Return the state of a key or token."""
        if not is_issued(key):
            return self._registry.state_of(key, now)
        token = self._tokens.get(key)
        if token is None:
            return KeyState.UNKNOWN
        revoked = self._registry.state_of(revocation_key(token.principal), now)
        if revoked is KeyState.REVOKED:
            return revoked
        return KeyState.ALLOWED if now < token.expires_at else KeyState.EXPIRED

    def principal_of(self, key: str) -> Principal:
        """Return the principal of a key or token."""
        token = self._tokens.get(key)
        return self._registry.principal_of(key) if token is None else token.principal

    def entry_of(self, principal: str) -> PrincipalEntry:
        """Return the registry's entry of a principal."""
        return self._registry.entry_of(principal)

    def groups_of(self, key: str) -> tuple[str, ...]:
        """Return the groups that a token names, each with its issuer."""
        token = self._tokens.get(key)
        return () if token is None else token.groups
