"""The policy's TOML form. Pure: text in, policy out; errors name the place.

[roles.resizer]                  # one rule; several are written [[roles.resizer]]
verbs = ["submit", "read-own"]
services = ["resize", "thumb-*"] # globs; if left out: any
tasks = ["*"]
targets = ["any", "names"]
names = ["edge-*"]
effect = "deny"                  # the rule denies; if left out: allow

[principals]                     # globs of names; roles of several globs add up
alice = ["operator"]
"edge-*" = ["worker"]

[groups]                         # of tokens: ISSUER:GROUP, or globs of them
"corp:netops" = ["operator"]

[limits."*"]                     # later matching sections override
requests_per_second = 100
"""

import tomllib
from collections.abc import Iterable
from dataclasses import fields
from enum import StrEnum
from typing import Any, Final, TypeVar

from dragoman.security.allowances import Allowance
from dragoman.security.policy import Policy
from dragoman.security.roles import EVERYTHING, SHIPPED, Role, Rule
from dragoman.security.verbs import TargetClass, Verb

E = TypeVar("E", bound=StrEnum)
_SECTIONS: Final = ("roles", "principals", "groups", "limits")
_LIMITS: Final = {f.name: f.type for f in fields(Allowance)}


class BadPolicy(ValueError):
    """The text is not a valid policy; the message names the place and the mistake."""


def read_policy(text: str) -> Policy:
    """Read a policy. Raises BadPolicy."""
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadPolicy(f"not TOML: {error}") from None
    _only(raw, _SECTIONS, "the policy")
    roles = {**SHIPPED, **_roles(_table(raw.get("roles", {}), "roles"))}
    return Policy(
        roles,
        _grants(raw, "principals", roles),
        _limits(_table(raw.get("limits", {}), "limits")),
        _grants(raw, "groups", roles),
    )


def _roles(raw: dict[str, object]) -> dict[str, Role]:
    found: dict[str, Role] = {}
    for name, rules in raw.items():
        place = f"roles.{name}"
        if name in SHIPPED:
            raise BadPolicy(f"{place}: a built-in role cannot be changed; use another name")
        listed = rules if isinstance(rules, list) else [rules]
        if not listed:
            raise BadPolicy(f"{place}: a role needs at least one rule")
        found[name] = tuple(
            _rule(rule, f"{place}[{at}]" if isinstance(rules, list) else place)
            for at, rule in enumerate(listed)
        )
    return found


def _rule(raw: object, place: str) -> Rule:
    table = _table(raw, place)
    _only(table, ("effect", "verbs", "services", "tasks", "targets", "names"), place)
    if "verbs" not in table:
        raise BadPolicy(f"{place}: verbs is missing; one or more of {_listed(Verb)}")
    verbs = [_member(Verb, v, f"{place}.verbs") for v in _texts(table["verbs"], f"{place}.verbs")]
    targets = _globs(table, "targets", place) if "targets" in table else tuple(TargetClass)
    return Rule(
        frozenset(verbs),
        _globs(table, "services", place),
        _globs(table, "tasks", place),
        frozenset(_member(TargetClass, t, f"{place}.targets") for t in targets),
        _globs(table, "names", place),
        _is_denial(table, place),
    )


def _is_denial(table: dict[str, object], place: str) -> bool:
    effect = table.get("effect", "allow")
    if effect not in ("allow", "deny"):
        raise BadPolicy(f"{place}.effect: {effect!r} is neither allow nor deny")
    return effect == "deny"


def _globs(table: dict[str, object], name: str, place: str) -> tuple[str, ...]:
    return _texts(table[name], f"{place}.{name}") if name in table else EVERYTHING


def _grants(
    raw: dict[str, object], section: str, roles: dict[str, Role]
) -> dict[str, tuple[str, ...]]:
    found = {}
    for glob, names in _table(raw.get(section, {}), section).items():
        place = f"{section}.{glob}"
        found[glob] = _texts(names, place)
        for name in found[glob]:
            if name not in roles:
                raise BadPolicy(f"{place}: there is no role {name!r}; there are {_listed(roles)}")
    return found


def _limits(raw: dict[str, object]) -> dict[str, Allowance]:
    return {glob: _allowance(table, f"limits.{glob}") for glob, table in raw.items()}


def _allowance(raw: object, place: str) -> Allowance:
    table = _table(raw, place)
    _only(table, tuple(_LIMITS), place)
    for name, number in table.items():
        is_number = type(number) is int or (type(number) is float and "float" in str(_LIMITS[name]))
        if not is_number or number < 0:
            raise BadPolicy(f"{place}.{name}: {number!r} is no limit; write a number from 0 up")
    return Allowance(**table)


def _table(raw: object, place: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise BadPolicy(f"{place}: a table is expected, not {raw!r}")
    return raw


def _texts(raw: object, place: str) -> tuple[str, ...]:
    if not isinstance(raw, list) or not raw or not all(isinstance(s, str) and s for s in raw):
        raise BadPolicy(f"{place}: a list of strings is expected, not {raw!r}")
    return tuple(raw)


def _member(kind: type[E], raw: str, place: str) -> E:
    try:
        return kind(raw)
    except ValueError:
        raise BadPolicy(f"{place}: {raw!r} is not one of {_listed(kind)}") from None


def _only(raw: dict[str, object], names: tuple[str, ...], place: str) -> None:
    for name in raw:
        if name not in names:
            raise BadPolicy(f"{place}: unknown key {name!r}; known are {_listed(names)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(str(name) for name in names)
