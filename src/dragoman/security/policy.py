"""The policy: roles, which principals have them, and the decision with its reason. Pure.

The default is to deny. A decision names the rule that allowed the request, or says there is none.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from dragoman.model.names import ANONYMOUS
from dragoman.model.value import field, value
from dragoman.security.allowances import ANONYMOUS_LIMITS, UNLIMITED, Allowance
from dragoman.security.roles import SHIPPED, Role
from dragoman.security.verbs import AccessRequest

#: Decisions in the cache; peers repeat the same few requests.
_REMEMBERED: Final = 20_000
_SET: Final = re.compile(r"\[[^\]]+\]")


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
    #: Roles of the groups that issuers of tokens name (by glob of `ISSUER:GROUP`).
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def roles_of(
        self, principal: str, given: tuple[str, ...] = (), groups: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        """Return a principal's roles: those `given` by the registry, and those the policy adds."""
        found = dict.fromkeys(given)
        for glob, names in self.groups.items() if groups else ():
            if any(fnmatchcase(group, glob) for group in groups):
                found.update(dict.fromkeys(names))
        for glob, names in self.grants.items():
            if matches_principal(principal, glob):
                found.update(dict.fromkeys(names))
        return tuple(found)

    def grants_beyond(
        self, names: tuple[str, ...], roles: tuple[str, ...]
    ) -> dict[str, tuple[str, ...]]:
        """Return the grants of other roles that overlap with some globs of names."""
        return {
            glob: more
            for glob, granted in self.grants.items()
            if (more := tuple(r for r in granted if r not in roles and self.gives_rights(r)))
            and any(overlap(glob, name) for name in names)
        }

    def gives_rights(self, role: str) -> bool:
        """Tell whether a role allows anything; one that only denies gives no rights."""
        return any(not rule.is_denial for rule in self.roles.get(role, ()))

    def allowance_of(self, principal: str) -> Allowance:
        """Return a principal's allowance; of several matching globs, later ones override."""
        if principal == ANONYMOUS:
            return self._anonymous_allowance()
        found = UNLIMITED
        for glob, allowance in self.allowances.items():
            if matches_principal(principal, glob):
                found = found.overridden_by(allowance)
        return found

    def _anonymous_allowance(self) -> Allowance:
        """Return the limits of all peers without a key: globs tighten them, the name overrides."""
        found = ANONYMOUS_LIMITS
        for glob, allowance in self.allowances.items():
            if glob != ANONYMOUS and fnmatchcase(ANONYMOUS, glob):
                found = found.tightened_by(allowance)
        return found.overridden_by(self.allowances.get(ANONYMOUS, UNLIMITED))

    def _rules_for(
        self, roles: tuple[str, ...], request: AccessRequest
    ) -> tuple[list[str], list[str]]:
        """Return the places of the rules that allow a request, and of those that deny it."""
        allowing: list[str] = []
        denying: list[str] = []
        for name in roles:
            for number, rule in enumerate(self.roles.get(name, ()), 1):
                if rule.allows(request):
                    allowing.append(f"role {name}, rule {number}")
                elif rule.denies(request):
                    denying.append(f"role {name}, rule {number}")
        return allowing, denying

    def decide(self, roles: tuple[str, ...], request: AccessRequest) -> Decision:
        """Decide about a request with these roles. A rule that denies wins over all that allow."""
        allowing, denying = self._rules_for(roles, request)
        if denying:
            although = f", although {allowing[0]} allows it" if allowing else ""
            return Decision(False, f"{denying[0]} denies it{although}: {request}")
        if allowing:
            return Decision(True, allowing[0])
        if not roles:
            return Decision(False, f"no role, so no right to {request.verb}")
        listed = ", ".join(name if name in self.roles else f"{name} (unknown)" for name in roles)
        return Decision(False, f"no rule of {listed} allows: {request}")


def matches_principal(principal: str, glob: str) -> bool:
    """Tell whether a glob grants to a principal. Globs never grant to `anonymous`: name it."""
    if principal == ANONYMOUS:
        return glob == ANONYMOUS
    return fnmatchcase(principal, glob)


def overlap(one: str, other: str) -> bool:
    """Tell whether two globs may match the same name; a set `[...]` counts as any character."""
    first, second = (_SET.sub("?", glob) for glob in (one, other))
    reached = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        i, j = todo.pop()
        a, b = first[i : i + 1], second[j : j + 1]
        steps = [(i + 1, j)] if a == "*" else []
        steps += [(i, j + 1)] if b == "*" else []
        if a and b and (a == b or {a, b} & {"*", "?"}):
            steps.append((i + (a != "*"), j + (b != "*")))
        new = {step for step in steps if step[0] <= len(first) and step[1] <= len(second)} - reached
        reached |= new
        todo += new
    return (len(first), len(second)) in reached


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
