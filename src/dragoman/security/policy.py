"""Who may do what: roles, who has them, and the decision with its reason. Pure.

Denied is the default. A decision names the rule that made it, or says that there is none.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from dragoman.model.value import field, value
from dragoman.security.allowances import UNLIMITED, Allowance
from dragoman.security.roles import SHIPPED, Role
from dragoman.security.verbs import AccessRequest

#: Decisions that are remembered; peers ask the same again and again.
_REMEMBERED: Final = 20_000


@value
class Decision:
    """Yes or no, and why."""

    is_allowed: bool
    reason: str


@value
class Policy:
    """Roles by name, the roles of principals (by glob), and their allowances (by glob)."""

    roles: Mapping[str, Role] = field(default_factory=lambda: dict(SHIPPED))
    grants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allowances: Mapping[str, Allowance] = field(default_factory=dict)

    def roles_of(self, principal: str, given: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a principal's roles: those `given` in the registry, and those the policy adds."""
        found = dict.fromkeys(given)
        for glob, names in self.grants.items():
            if is_meant(principal, glob):
                found.update(dict.fromkeys(names))
        return tuple(found)

    def allowance_of(self, principal: str) -> Allowance:
        """Return a principal's allowance: of several globs that fit, later ones say more."""
        found = UNLIMITED
        for glob, said in self.allowances.items():
            if is_meant(principal, glob):
                found = found.overridden_by(said)
        return found

    def decide(self, roles: tuple[str, ...], ask: AccessRequest) -> Decision:
        """Decide for somebody who has these roles."""
        for name in roles:
            for number, rule in enumerate(self.roles.get(name, ()), 1):
                if rule.allows(ask):
                    return Decision(True, f"role {name}, rule {number}")
        if not roles:
            return Decision(False, f"no role, and no role means no {ask.verb}")
        said = ", ".join(name if name in self.roles else f"{name} (unknown)" for name in roles)
        return Decision(False, f"no rule of {said} allows: {ask}")


def is_meant(principal: str, glob: str) -> bool:
    """Tell whether a principal fits a glob; those who proved nothing are only meant by name."""
    if principal == "anonymous":
        return glob == "anonymous"
    return fnmatchcase(principal, glob)


class DecisionCache:
    """A policy with a memory: the answers to what is asked again and again."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._made: dict[tuple[tuple[str, ...], AccessRequest], Decision] = {}

    def decide(self, roles: tuple[str, ...], ask: AccessRequest) -> Decision:
        """Decide, or remember what was decided."""
        found = self._made.get((roles, ask))
        if found is None:
            if len(self._made) >= _REMEMBERED:
                self._made.clear()
            found = self._made[roles, ask] = self.policy.decide(roles, ask)
        return found
