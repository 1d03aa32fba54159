"""The policy: roles, which principals have them, and the decision with its reason. Pure.

The default is to deny. A decision names the rule that allowed the request, or says there is none.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from dragoman.model.value import field, value
from dragoman.security.allowances import UNLIMITED, Allowance
from dragoman.security.roles import SHIPPED, Role
from dragoman.security.verbs import AccessRequest

#: Decisions in the cache; peers repeat the same few requests.
_REMEMBERED: Final = 20_000


@value
class Decision:
    """Allowed or not, and the reason."""

    is_allowed: bool
    reason: str


@value
class Policy:
    """Roles by name, the roles of principals (by glob), and their allowances (by glob)."""

    roles: Mapping[str, Role] = field(default_factory=lambda: dict(SHIPPED))
    grants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allowances: Mapping[str, Allowance] = field(default_factory=dict)

    def roles_of(self, principal: str, given: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a principal's roles: those `given` by the registry, and those the policy adds."""
        found = dict.fromkeys(given)
        for glob, names in self.grants.items():
            if matches_principal(principal, glob):
                found.update(dict.fromkeys(names))
        return tuple(found)

    def allowance_of(self, principal: str) -> Allowance:
        """Return a principal's allowance; of several matching globs, later ones override."""
        found = UNLIMITED
        for glob, allowance in self.allowances.items():
            if matches_principal(principal, glob):
                found = found.overridden_by(allowance)
        return found

    def decide(self, roles: tuple[str, ...], request: AccessRequest) -> Decision:
        """Decide about a request with these roles."""
        for name in roles:
            for number, rule in enumerate(self.roles.get(name, ()), 1):
                if rule.allows(request):
                    return Decision(True, f"role {name}, rule {number}")
        if not roles:
            return Decision(False, f"no role, so no right to {request.verb}")
        listed = ", ".join(name if name in self.roles else f"{name} (unknown)" for name in roles)
        return Decision(False, f"no rule of {listed} allows: {request}")


def matches_principal(principal: str, glob: str) -> bool:
    """Tell whether a glob matches a principal. Globs never match `anonymous`: name it."""
    if principal == "anonymous":
        return glob == "anonymous"
    return fnmatchcase(principal, glob)


class DecisionCache:
    """A policy with a cache of its decisions."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._made: dict[tuple[tuple[str, ...], AccessRequest], Decision] = {}

    def decide(self, roles: tuple[str, ...], request: AccessRequest) -> Decision:
        """Decide, from the cache if possible."""
        found = self._made.get((roles, request))
        if found is None:
            if len(self._made) >= _REMEMBERED:
                self._made.clear()
            found = self._made[roles, request] = self.policy.decide(roles, request)
        return found
