"""A registry in memory and small builders, for tests that need no disk."""

from dragoman.model.names import JobId, Principal, ServiceName
from dragoman.security.gate import Gate, Owned
from dragoman.security.keys import State
from dragoman.security.policy_text import read_policy
from dragoman.security.register import KeyEntry, PrincipalEntry, Register

NOW = 1000.0


def ring(**roles: str) -> Register:
    """Return a register in which each name has one key of the same name, and one role."""
    return Register(
        keys={name: KeyEntry(name, State.ALLOWED) for name in roles},
        principals={name: PrincipalEntry((role,)) for name, role in roles.items()},
    )


def gate(keys: Register, policy: str = "", jobs: dict[str, tuple[str, str]] | None = None) -> Gate:
    """Return a gate; `jobs` are principal and service by id."""
    owned = {
        JobId(job): Owned(Principal(who), ServiceName(service))
        for job, (who, service) in (jobs or {}).items()
    }
    return Gate(keys, read_policy(policy), owner_of=owned.get)
