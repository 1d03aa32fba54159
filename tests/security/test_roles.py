"""Rules: what each of their parts lets through; and the roles that ship."""

import pytest

from dragoman.security.roles import SHIPPED, Rule
from dragoman.security.verbs import AccessRequest, TargetClass, Verb

SUBMIT = frozenset({Verb.SUBMIT})
REGISTER = frozenset({Verb.REGISTER})


def test_a_rule_is_for_its_verbs_services_and_tasks() -> None:
    rule = Rule(SUBMIT, ("resize", "thumb-*"), ("run", "show_*"))
    assert rule.allows(AccessRequest(Verb.SUBMIT, "resize", "run"))
    assert rule.allows(AccessRequest(Verb.SUBMIT, "thumb-1", "show_all"))
    assert not rule.allows(AccessRequest(Verb.SUBMIT, "resizer", "run"))
    assert not rule.allows(AccessRequest(Verb.SUBMIT, "resize", "stop"))
    assert not rule.allows(AccessRequest(Verb.SUBMIT, "resize"))
    assert not rule.allows(AccessRequest(Verb.CANCEL, "resize", "run"))


def test_a_rule_for_a_service_covers_its_versions() -> None:
    assert Rule(SUBMIT, ("math",)).allows(AccessRequest(Verb.SUBMIT, "math@1.2.0"))
    assert Rule(SUBMIT, ("math@1.*",)).allows(AccessRequest(Verb.SUBMIT, "math@1.2.0"))
    assert not Rule(SUBMIT, ("math@1.*",)).allows(AccessRequest(Verb.SUBMIT, "math@2.0.0"))


def test_every_service_at_once_needs_the_right_to_every_one() -> None:
    assert not Rule(SUBMIT, ("a*",)).allows(AccessRequest(Verb.SUBMIT, "all"))
    assert not Rule(SUBMIT, ("all",)).allows(AccessRequest(Verb.SUBMIT, "all"))
    assert Rule(SUBMIT, ("a", "*")).allows(AccessRequest(Verb.SUBMIT, "all"))


def test_without_a_service_one_allowed_service_is_enough() -> None:
    assert Rule(SUBMIT, ("resize",)).allows(AccessRequest(Verb.SUBMIT, ""))


@pytest.mark.parametrize("target", TargetClass)
def test_targets_restrict_submissions_only(target: TargetClass) -> None:
    rule = Rule(SUBMIT | {Verb.MANAGE}, targets=frozenset({TargetClass.ANY}))
    assert rule.allows(AccessRequest(Verb.SUBMIT, "a", "", target)) is (target is TargetClass.ANY)
    assert rule.allows(AccessRequest(Verb.MANAGE, "a", "", target))


def test_names_restrict_registration_and_named_targets() -> None:
    rule = Rule(SUBMIT | REGISTER | {Verb.CANCEL}, names=("edge-*",))
    assert rule.allows(AccessRequest(Verb.REGISTER, "a", names=("edge-1",)))
    assert not rule.allows(AccessRequest(Verb.REGISTER, "a", names=("core-1",)))
    assert not rule.allows(AccessRequest(Verb.REGISTER, "a"))
    named = AccessRequest(Verb.SUBMIT, "a", "", TargetClass.NAMES, ("edge-1", "edge-2"))
    assert rule.allows(named)
    assert not rule.allows(
        AccessRequest(Verb.SUBMIT, "a", "", TargetClass.NAMES, ("edge-1", "core-1"))
    )
    assert not rule.allows(AccessRequest(Verb.SUBMIT, "a"))
    assert rule.allows(AccessRequest(Verb.CANCEL, "a"))


#: What each shipped role may do with an ordinary service of somebody's: the product's promise.
PROMISED = {
    "viewer": set[Verb](),
    "submitter": {Verb.SUBMIT, Verb.READ_OWN, Verb.CANCEL},
    "operator": set(Verb) - {Verb.REGISTER},
    "worker": {Verb.REGISTER, Verb.INVENTORY_OWN},
    "auditor": {Verb.READ_OWN, Verb.READ_OTHERS, Verb.EVENTS},
    "admin": set(Verb),
}


@pytest.mark.parametrize("role", SHIPPED)
def test_a_shipped_role_may_do_what_was_promised(role: str) -> None:
    plain = {
        v for v in Verb if any(r.allows(AccessRequest(v, "resize", "run")) for r in SHIPPED[role])
    }
    assert plain == PROMISED[role]


@pytest.mark.parametrize(
    ("role", "service", "task", "expected"),
    [
        ("viewer", "mmi.service.broker", "show_workers", True),
        ("viewer", "mmi.service.broker", "why", True),
        ("viewer", "mmi.service.broker", "restart", False),
        ("viewer", "mmi.service.broker", "get_logs", False),
        ("auditor", "mmi.service.broker", "get_logs", True),
        ("auditor", "mmi.service.broker", "shutdown", False),
        ("operator", "mmi.service.broker", "shutdown", True),
        ("submitter", "mmi.service.broker", "show_workers", False),
    ],
)
def test_a_role_that_only_shows_cannot_control(
    role: str, service: str, task: str, expected: bool
) -> None:
    ask = AccessRequest(Verb.MANAGE, service, task)
    assert any(rule.allows(ask) for rule in SHIPPED[role]) is expected


@pytest.mark.parametrize(
    ("role", "verb", "task", "expected"),
    [
        ("worker", Verb.INVENTORY, "get_inventory", False),
        ("worker", Verb.INVENTORY_OWN, "get_inventory", True),
        ("worker", Verb.INVENTORY, "set", False),
        ("viewer", Verb.INVENTORY, "history", True),
        ("viewer", Verb.INVENTORY, "undo", False),
        ("worker", Verb.FILES, "fetch_file", True),
        ("submitter", Verb.FILES, "put_file", False),
        ("operator", Verb.FILES, "put_file", True),
    ],
)
def test_a_role_that_only_reads_cannot_change(
    role: str, verb: Verb, task: str, expected: bool
) -> None:
    ask = AccessRequest(verb, "sid.service.broker", task)
    assert any(rule.allows(ask) for rule in SHIPPED[role]) is expected


def test_a_denial_covers_what_includes_the_denied_part() -> None:
    rule = Rule(SUBMIT | {Verb.EVENTS}, ("vault",), is_denial=True)
    assert rule.denies(AccessRequest(Verb.SUBMIT, "vault", "open"))
    assert rule.denies(AccessRequest(Verb.SUBMIT, "vault@2.0.0"))
    assert rule.denies(AccessRequest(Verb.EVENTS, "all")), "every service includes the vault"
    assert not rule.denies(AccessRequest(Verb.SUBMIT, "math"))
    assert not rule.denies(AccessRequest(Verb.EVENTS)), "other services may be allowed"
    assert not rule.denies(AccessRequest(Verb.CANCEL, "vault"))
    assert not rule.allows(AccessRequest(Verb.SUBMIT, "vault"))
    assert Rule(SUBMIT, is_denial=True).denies(AccessRequest(Verb.SUBMIT))


def test_a_denial_of_names_holds_for_any_of_them() -> None:
    rule = Rule(SUBMIT | REGISTER, names=("core-*",), is_denial=True)
    named = AccessRequest(Verb.SUBMIT, "a", target=TargetClass.NAMES, names=("edge-1", "core-1"))
    assert rule.denies(named)
    assert rule.denies(AccessRequest(Verb.REGISTER, "a", names=("core-1",)))
    assert not rule.denies(AccessRequest(Verb.REGISTER, "a", names=("edge-1",)))
    assert not rule.denies(AccessRequest(Verb.SUBMIT, "a"))


def test_a_denial_of_targets_and_tasks() -> None:
    rule = Rule(SUBMIT, ("a",), ("wipe",), frozenset({TargetClass.ALL}), is_denial=True)
    assert rule.denies(AccessRequest(Verb.SUBMIT, "a", "wipe", TargetClass.ALL))
    assert not rule.denies(AccessRequest(Verb.SUBMIT, "a", "wipe"))
    assert not rule.denies(AccessRequest(Verb.SUBMIT, "a", "read", TargetClass.ALL))
