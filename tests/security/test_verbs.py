"""What a request is: the verb that its service and task make it."""

import pytest

from dragoman.model.names import EVERY_SERVICE
from dragoman.model.target import ALL, ANY, Labelled, Named, OnResource, Target
from dragoman.security.roles import SHIPPED
from dragoman.security.verbs import (
    AccessRequest,
    TargetClass,
    Verb,
    access_request_for,
    canonical_service,
    class_of,
    verb_for,
)


@pytest.mark.parametrize(
    ("service", "task", "verb"),
    [
        ("resize", "run", Verb.SUBMIT),
        ("mmi.service.broker", "show_jobs", Verb.MANAGE),
        ("MMI.SERVICE.BROKER", "show_jobs", Verb.MANAGE),
        ("mmi.service.worker", "restart", Verb.MANAGE),
        ("mmi.service.broker", "events", Verb.EVENTS),
        ("mmi.service.broker", "publish", Verb.REGISTER),
        ("mmi.service.broker", "forget_result", Verb.CANCEL),
        ("resize", "events", Verb.SUBMIT),
        ("sid.service.broker", "get", Verb.INVENTORY),
        ("fss.service.broker", "walk", Verb.FILES),
        ("filesharing", "walk", Verb.FILES),
        ("resize", "mmi.restart", Verb.MANAGE),
        ("resize", "shutdown", Verb.MANAGE),
        ("mmixer", "run", Verb.SUBMIT),
        ("all", "", Verb.SUBMIT),
    ],
)
def test_the_service_and_the_task_make_the_verb(service: str, task: str, verb: Verb) -> None:
    assert verb_for(service, task) is verb


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (ANY, TargetClass.ANY),
        (ALL, TargetClass.ALL),
        (Named(()), TargetClass.NAMES),
        (Labelled("a=b"), TargetClass.LABELS),
        (OnResource(("r",)), TargetClass.RESOURCES),
    ],
)
def test_every_target_has_its_class(target: Target, expected: TargetClass) -> None:
    assert class_of(target) is expected


def test_polling_for_events_needs_a_rule_for_every_service() -> None:
    viewer, auditor = SHIPPED["viewer"], SHIPPED["auditor"]
    ask = access_request_for("mmi.service.broker", "events", ANY)
    assert ask == AccessRequest(Verb.EVENTS, EVERY_SERVICE)
    assert any(rule.allows(ask) for rule in auditor)
    assert not any(rule.allows(ask) for rule in viewer)


def test_publishing_needs_the_right_to_register() -> None:
    ask = access_request_for("mmi.service.broker", "publish", ANY)
    assert any(rule.allows(ask) for rule in SHIPPED["worker"])
    assert not any(rule.allows(ask) for rule in SHIPPED["submitter"])


def test_only_names_of_built_in_services_ignore_case() -> None:
    assert canonical_service("SID.SERVICE.BROKER") == "sid.service.broker"
    assert canonical_service("Resize") == "Resize"


def test_an_access_request_reads_as_a_sentence() -> None:
    assert str(AccessRequest(Verb.EVENTS)) == "events anything"
    ask = AccessRequest(Verb.SUBMIT, "resize", "run", TargetClass.NAMES, ("a", "b"))
    assert str(ask) == "submit resize task run for names as a, b"
