"""A policy as people write it, in TOML. Pure: text in, policy out; errors name the place.

[roles.resizer]                  # one rule; several are written [[roles.resizer]]
verbs = ["submit", "read-own"]
services = ["resize", "thumb-*"] # globs; all that is left out means "any"
tasks = ["*"]
targets = ["any", "names"]
names = ["edge-*"]

[principals]                     # globs of names; a name's roles add up
alice = ["operator"]
"edge-*" = ["worker"]

[limits."*"]                     # later ones that fit say more
requests_per_second = 100
"""

import tomllib
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final

from dragoman.security.allowances import Allowance
from dragoman.security.policy import Policy
from dragoman.security.roles import EVERYTHING, SHIPPED, Role, Rule
from dragoman.security.verbs import TargetClass, Verb

_SECTIONS: Final = ("roles", "principals", "limits")
_LIMITS: Final = {f.name: f.type for f in fields(Allowance)}


class BadPolicy(ValueError):
    """The text is no policy; the message names the place and what is wrong there."""


def read_policy(text: str) -> Policy:
    """Read a policy. Raises BadPolicy."""
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadPolicy(f"not TOML: {error}") from None
    _only(said, _SECTIONS, "the policy")
    roles = {**SHIPPED, **_roles(_table(said.get("roles", {}), "roles"))}
    return Policy(
        roles,
        _grants(_table(said.get("principals", {}), "principals"), roles),
        _limits(_table(said.get("limits", {}), "limits")),
    )


def _roles(said: dict[str, Any]) -> dict[str, Role]:
    found: dict[str, Role] = {}
    for name, rules in said.items():
        place = f"roles.{name}"
        if name in SHIPPED:
            raise BadPolicy(f"{place}: this role ships with the product; use another name")
        listed = rules if isinstance(rules, list) else [rules]
        if not listed:
            raise BadPolicy(f"{place}: a role has at least one rule")
        found[name] = tuple(
            _rule(rule, f"{place}[{at}]" if isinstance(rules, list) else place)
            for at, rule in enumerate(listed)
        )
    return found


def _rule(said: Any, place: str) -> Rule:
    table = _table(said, place)
    _only(table, ("verbs", "services", "tasks", "targets", "names"), place)
    if "verbs" not in table:
        raise BadPolicy(f"{place}: verbs is missing; one or more of {_listed(Verb)}")
    verbs = [_word(Verb, v, f"{place}.verbs") for v in _texts(table["verbs"], f"{place}.verbs")]
    said_targets = _globs(table, "targets", place) if "targets" in table else tuple(TargetClass)
    return Rule(
        frozenset(verbs),
        _globs(table, "services", place),
        _globs(table, "tasks", place),
        frozenset(_word(TargetClass, t, f"{place}.targets") for t in said_targets),
        _globs(table, "names", place),
    )


def _globs(table: dict[str, Any], name: str, place: str) -> tuple[str, ...]:
    return _texts(table[name], f"{place}.{name}") if name in table else EVERYTHING


def _grants(said: dict[str, Any], roles: dict[str, Role]) -> dict[str, tuple[str, ...]]:
    found = {}
    for glob, names in said.items():
        place = f"principals.{glob}"
        found[glob] = _texts(names, place)
        for name in found[glob]:
            if name not in roles:
                raise BadPolicy(f"{place}: there is no role {name!r}; there are {_listed(roles)}")
    return found


def _limits(said: dict[str, Any]) -> dict[str, Allowance]:
    return {glob: _allowance(table, f"limits.{glob}") for glob, table in said.items()}


def _allowance(said: Any, place: str) -> Allowance:
    table = _table(said, place)
    _only(table, tuple(_LIMITS), place)
    for name, number in table.items():
        is_number = type(number) is int or (type(number) is float and "float" in str(_LIMITS[name]))
        if not is_number or number < 0:
            raise BadPolicy(f"{place}.{name}: {number!r} is no bound; a number from 0 on is")
    return Allowance(**table)


def _table(said: Any, place: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise BadPolicy(f"{place}: a table is expected, not {said!r}")
    return said


def _texts(said: Any, place: str) -> tuple[str, ...]:
    if not isinstance(said, list) or not said or not all(isinstance(s, str) and s for s in said):
        raise BadPolicy(f"{place}: a list of texts is expected, not {said!r}")
    return tuple(said)


def _word(kind: Any, said: str, place: str) -> Any:
    try:
        return kind(said)
    except ValueError:
        raise BadPolicy(f"{place}: {said!r} is none of {_listed(kind)}") from None


def _only(said: dict[str, Any], names: tuple[str, ...], place: str) -> None:
    for name in said:
        if name not in names:
            raise BadPolicy(f"{place}: {name!r} means nothing here; {_listed(names)} do")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(str(name) for name in names)
