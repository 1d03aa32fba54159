"""Decisions and their reasons."""

import pytest

from dragoman.security.allowances import ANONYMOUS_LIMITS, Allowance
from dragoman.security.policy import DecisionCache, Policy, overlap
from dragoman.security.roles import SHIPPED, Rule
from dragoman.security.verbs import AccessRequest, Verb

ROLES = {**SHIPPED, "resizer": (Rule(frozenset({Verb.CANCEL})), Rule(frozenset({Verb.SUBMIT})))}


def test_denied_is_the_default() -> None:
    decision = Policy().decide((), AccessRequest(Verb.SUBMIT, "resize"))
    assert not decision.is_allowed
    assert "no role" in decision.reason


def test_a_decision_names_the_rule_that_made_it() -> None:
    policy = Policy(ROLES)
    assert policy.decide(("viewer", "resizer"), AccessRequest(Verb.SUBMIT, "a")).reason == (
        "role resizer, rule 2"
    )
    denied = policy.decide(("viewer", "nobody"), AccessRequest(Verb.SUBMIT, "a", "run"))
    assert denied.reason == "no rule of viewer, nobody (unknown) allows: submit a task run"


def test_roles_come_from_the_registry_and_from_every_matching_glob() -> None:
    policy = Policy(ROLES, {"edge-*": ("worker",), "edge-1": ("resizer", "worker")})
    assert policy.roles_of("edge-1", ("viewer",)) == ("viewer", "worker", "resizer")
    assert policy.roles_of("core-1") == ()


def test_globs_never_match_anonymous() -> None:
    everybody = Policy(ROLES, {"*": ("admin",)}, {"*": Allowance(open_jobs=1)})
    assert everybody.roles_of("anonymous") == ()
    assert Policy(ROLES, {"anonymous": ("viewer",)}).roles_of("anonymous") == ("viewer",)


def test_later_matching_limits_override() -> None:
    bounds = {"*": Allowance(open_jobs=10, connections=2), "alice": Allowance(open_jobs=50)}
    policy = Policy(ROLES, {}, bounds)
    assert policy.allowance_of("alice") == Allowance(open_jobs=50, connections=2)
    assert policy.allowance_of("bob") == Allowance(open_jobs=10, connections=2)


def test_decisions_are_cached_and_the_cache_is_bounded() -> None:
    decisions = DecisionCache(Policy())
    ask = AccessRequest(Verb.SUBMIT, "a")
    assert decisions.decide(("submitter",), ask) is decisions.decide(("submitter",), ask)
    for number in range(30_000):
        decisions.decide(("submitter",), AccessRequest(Verb.SUBMIT, f"s{number}"))
    assert len(decisions._made) <= 20_000


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("ops-*", "*", True),
        ("ops-*", "ops-1", True),
        ("ops-*", "*-1", True),
        ("ops-*", "edge-*", False),
        ("a*c", "ab*", True),
        ("a*c", "a*d", False),
        ("a?", "abc", False),
        ("[ab]1", "b?", True),
        ("", "*", True),
        ("", "?", False),
    ],
)
def test_globs_overlap_if_one_name_may_match_both(one: str, other: str, expected: bool) -> None:
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected


def test_grants_of_other_roles_that_a_token_could_reach_are_found() -> None:
    policy = Policy(grants={"ops-*": ("operator", "worker"), "edge-*": ("worker",)})
    assert policy.grants_beyond(("*",), ("worker",)) == {"ops-*": ("operator",)}
    assert policy.grants_beyond(("edge-*",), ("worker",)) == {}


def test_limits_of_everybody_bound_peers_without_a_key() -> None:
    assert Policy().allowance_of("anonymous") == ANONYMOUS_LIMITS
    tight = Policy(allowances={"*": Allowance(open_jobs=7, requests_per_second=10**6)})
    found = tight.allowance_of("anonymous")
    assert (found.open_jobs, found.requests_per_second) == (7, ANONYMOUS_LIMITS.requests_per_second)
    raised = Policy(allowances={"*": Allowance(open_jobs=7), "anonymous": Allowance(open_jobs=9)})
    assert raised.allowance_of("anonymous").open_jobs == 9
    assert raised.allowance_of("anonymous").connections == ANONYMOUS_LIMITS.connections


def test_a_denial_wins_in_any_order_and_the_reason_names_both_rules() -> None:
    vault = Rule(frozenset(Verb), ("vault",), is_denial=True)
    policy = Policy({**SHIPPED, "no-vault": (vault,)}, {"*": ("no-vault",)})
    request = AccessRequest(Verb.SUBMIT, "vault")
    for roles in (("admin", "no-vault"), ("no-vault", "admin")):
        decision = policy.decide(roles, request)
        assert not decision.is_allowed
        assert decision.reason == (
            "role no-vault, rule 1 denies it, although role admin, rule 1 allows it: submit vault"
        )
        assert policy.decide(roles, AccessRequest(Verb.SUBMIT, "math")).is_allowed
    assert policy.decide(("no-vault",), request).reason == (
        "role no-vault, rule 1 denies it: submit vault"
    )


def test_a_role_that_only_denies_is_no_grant_beyond_a_token() -> None:
    denial = Rule(frozenset({Verb.SUBMIT}), is_denial=True)
    policy = Policy({**SHIPPED, "none": (denial,)}, {"*": ("none",), "ops-*": ("operator",)})
    assert policy.grants_beyond(("edge-*",), ("worker",)) == {}
    assert policy.grants_beyond(("ops-1",), ("worker",)) == {"ops-*": ("operator",)}
