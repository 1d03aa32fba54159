"""Planted bugs of webhooks: for each, the smallest scenario that breaks its promise."""

from collections.abc import Callable

import pytest
from tests.core.builders import Stage, cancelled, submitted
from tests.testing.promises import around

from dragoman.model.record import Kind, Record
from dragoman.model.terms import Terms, terms_text
from dragoman.server.webhook_queue import WebhookQueue
from dragoman.testing.bugs.hooks import BUGS

HOOK = "https://hooks.example.org/"
TERMS = terms_text(Terms(webhook=HOOK))


def queue() -> WebhookQueue:
    found = WebhookQueue({}, 0, 3)
    found.read(Record(1, 1.0, Kind.ENDED, "j1", terms=TERMS))
    return found


def a_restart_reads_the_end_again(stage: Stage) -> bool:
    return queue().kept_position == 0


def a_failure_is_repeated(stage: Stage) -> bool:
    found = queue()
    [delivery] = found.due(0.0)
    delivery.attempts = 1
    found.failed(delivery, "down", 0.0)
    return found.due(9.0) == [delivery]


def an_outcome_is_on_disk_before_the_end_is_passed(stage: Stage) -> bool:
    found = queue()
    found.delivered(found.due(0.0)[0])
    return found.kept_position == 0


def a_submission_is_no_end(stage: Stage) -> bool:
    found = WebhookQueue({}, 0, 3)
    found.read(Record(1, 1.0, Kind.SUBMITTED, "j1", terms=TERMS))
    return found.due(0.0) == []


def the_end_of_a_cancelled_job_names_its_webhook(stage: Stage) -> bool:
    stage.tell(submitted("j1", webhook=HOOK), cancelled("j1"))
    return stage.records[-1].terms == TERMS


STORIES: dict[str, Callable[[Stage], bool]] = {
    "webhook_lost_in_a_restart": a_restart_reads_the_end_again,
    "webhook_not_repeated": a_failure_is_repeated,
    "webhook_outcome_lost": an_outcome_is_on_disk_before_the_end_is_passed,
    "webhook_before_the_end": a_submission_is_no_end,
    "webhook_forgotten_at_a_cancel": the_end_of_a_cancelled_job_names_its_webhook,
}


def test_every_bug_has_its_story() -> None:
    assert set(STORIES) == set(BUGS)


@pytest.mark.parametrize("name", list(BUGS))
def test_a_promise_is_broken_while_its_bug_is_in_and_only_then(name: str) -> None:
    assert around(BUGS[name], STORIES[name], Stage) == [True, False, True]
