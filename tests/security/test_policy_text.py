"""A policy in TOML: its meaning, and the reports of mistakes."""

import re
from pathlib import Path

import pytest

from dragoman.security.allowances import Allowance
from dragoman.security.policy_text import BadPolicy, read_policy
from dragoman.security.roles import SHIPPED, Rule
from dragoman.security.verbs import TargetClass, Verb

GOOD = """
[roles.resizer]
verbs = ["submit", "read-own"]
services = ["resize", "thumb-*"]
tasks = ["run"]
targets = ["any", "names"]
names = ["edge-*"]

[[roles.mixed]]
verbs = ["events"]
[[roles.mixed]]
verbs = ["register"]
services = ["lift"]

[principals]
alice = ["resizer", "viewer"]
"edge-*" = ["worker"]

[limits."*"]
requests_per_second = 0.5
[limits.alice]
open_jobs = 7
"""


def test_a_policy_has_roles_principals_and_limits() -> None:
    policy = read_policy(GOOD)
    assert policy.roles["resizer"] == (
        Rule(
            frozenset({Verb.SUBMIT, Verb.READ_OWN}),
            ("resize", "thumb-*"),
            ("run",),
            frozenset({TargetClass.ANY, TargetClass.NAMES}),
            ("edge-*",),
        ),
    )
    assert policy.roles["mixed"] == (
        Rule(frozenset({Verb.EVENTS})),
        Rule(frozenset({Verb.REGISTER}), ("lift",)),
    )
    assert policy.roles_of("alice") == ("resizer", "viewer")
    assert policy.allowance_of("alice") == Allowance(requests_per_second=0.5, open_jobs=7)


def test_an_empty_policy_has_the_shipped_roles_and_gives_them_to_nobody() -> None:
    policy = read_policy("")
    assert policy.roles == SHIPPED
    assert policy.roles_of("alice") == ()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[roles.x]\nverbs = a", "not TOML.*line 2"),
        ("[rules]", "the policy: unknown key 'rules'"),
        ("roles = 1", "roles: a table"),
        ("[roles.admin]\nverbs = ['submit']", "roles.admin: a built-in role"),
        ("[roles]\nx = []", "roles.x: a role needs"),
        ("[roles.x]", "roles.x: verbs is missing"),
        ("[roles.x]\nverbs = ['fly']", "roles.x.verbs: 'fly' is not one of submit"),
        ("[[roles.x]]\nverbs = ['submit']\n[[roles.x]]\nverbs = []", r"roles.x\[1\].verbs"),
        ("[roles.x]\nverbs = ['submit']\nservice = ['a']", "roles.x: unknown key 'service'"),
        ("[roles.x]\nverbs = ['submit']\nservices = 'a'", "roles.x.services: a list"),
        ("[roles.x]\nverbs = ['submit']\nservices = ['']", "roles.x.services: a list"),
        ("[roles.x]\nverbs = ['submit']\ntargets = ['some']", "roles.x.targets: 'some'"),
        ("[principals]\nalice = ['boss']", "principals.alice: there is no role 'boss'"),
        ("[principals]\nalice = 'admin'", "principals.alice: a list"),
        ("[limits.alice]\njobs = 1", "limits.alice: unknown key 'jobs'"),
        ("[limits.alice]\nopen_jobs = -1", "limits.alice.open_jobs: -1"),
        ("[limits.alice]\nopen_jobs = 1.5", "limits.alice.open_jobs: 1.5"),
        ("[limits.alice]\nopen_jobs = true", "limits.alice.open_jobs: True"),
        ("[limits]\nalice = 3", "limits.alice: a table"),
    ],
)
def test_a_mistake_is_reported_with_its_place(text: str, place: str) -> None:
    with pytest.raises(BadPolicy, match=place):
        read_policy(text)


def test_the_policy_in_the_document_is_valid() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (text,) = (block for block in blocks if "[roles" in block)
    policy = read_policy(text)
    assert policy.roles_of("alice") == ("resizer", "no-vault")
    assert policy.roles_of("anonymous") == ("viewer",)
    assert policy.allowance_of("edge-1").connections == 50


def test_a_rule_may_deny() -> None:
    text = """
    [[roles.careful]]
    verbs = ["submit"]
    [[roles.careful]]
    effect = "deny"
    verbs = ["submit"]
    services = ["vault"]
    """
    allow, deny = read_policy(text).roles["careful"]
    assert (allow.is_denial, deny.is_denial) == (False, True)
    with pytest.raises(BadPolicy, match="neither allow nor deny"):
        read_policy('[roles.x]\neffect = "forbid"\nverbs = ["submit"]')


def test_groups_give_roles_to_tokens_only() -> None:
    policy = read_policy('[groups]\n"corp:net*" = ["operator"]\n"*:staff" = ["viewer"]\n')
    assert policy.roles_of("corp:anna", (), ("corp:netops", "corp:staff")) == ("operator", "viewer")
    assert policy.roles_of("corp:netops") == ()
    assert policy.roles_of("corp:anna", ("worker",), ("other",)) == ("worker",)
    with pytest.raises(BadPolicy, match=r"groups\.x: there is no role 'y'"):
        read_policy('[groups]\nx = ["y"]\n')
