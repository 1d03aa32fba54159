"""A registry in memory and small builders, for tests that need no disk."""

from dragoman.model.names import JobId, Principal, ServiceName
from dragoman.security.gate import Gate, JobOwner
from dragoman.security.keys import KeyState
from dragoman.security.policy_text import read_policy
from dragoman.security.registry_data import KeyEntry, PrincipalEntry, RegistryData

NOW = 1000.0


def ring(**roles: str) -> RegistryData:
    """Return a register in which each name has one key of the same name, and one role."""
    return RegistryData(
        keys={name: KeyEntry(name, KeyState.ALLOWED) for name in roles},
        principals={name: PrincipalEntry((role,)) for name, role in roles.items()},
    )


def gate(
    keys: RegistryData, policy: str = "", jobs: dict[str, tuple[str, str]] | None = None
) -> Gate:
    """Return a gate; `jobs` are principal and service by id."""
    owned = {
        JobId(job): JobOwner(Principal(who), ServiceName(service))
        for job, (who, service) in (jobs or {}).items()
    }
    return Gate(keys, read_policy(policy), owner_of=owned.get)
