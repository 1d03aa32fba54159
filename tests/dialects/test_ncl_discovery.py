"""NATS service discovery: what a worker answers."""

import json
from typing import Any

from dragoman.dialects.ncl.discovery import Discovery


def discovery() -> Discovery:
    return Discovery("n-1", ("math", "text.tools"), "1.2.3", 1767323045.0)


def answers(subject: str) -> list[dict[str, Any]]:
    return [json.loads(a) for a in discovery().answers(subject, runs=3, failures=1)]


def test_a_ping_is_answered_for_each_service() -> None:
    found = answers("$SRV.PING")
    assert [a["name"] for a in found] == ["math", "text_tools"]
    assert found[0] == {
        "type": "io.nats.micro.v1.ping_response",
        "name": "math",
        "id": "n-1",
        "version": "1.2.3",
        "metadata": {"dialect": "ncl", "service": "math"},
    }


def test_a_question_about_one_service_is_answered_for_that_one() -> None:
    (found,) = answers("$SRV.INFO.math")
    assert found["type"] == "io.nats.micro.v1.info_response"
    assert found["endpoints"] == [
        {"name": "math", "subject": "bacalhau.global.compute.n-1.in.msgs", "queue_group": ""}
    ]
    assert found["description"]


def test_statistics_count_runs_and_failures() -> None:
    (found,) = answers("$SRV.STATS.math.n-1")
    (endpoint,) = found["endpoints"]
    assert (endpoint["num_requests"], endpoint["num_errors"]) == (3, 1)
    assert found["started"] == "2026-01-02T03:04:05Z"


def test_an_unknown_service_is_not_answered_for() -> None:
    assert answers("$SRV.PING.other") == []


def test_every_subject_of_the_convention_is_subscribed_to() -> None:
    subjects = discovery().subscriptions
    assert "$SRV.PING" in subjects
    assert "$SRV.STATS.math" in subjects
    assert "$SRV.INFO.text_tools.n-1" in subjects
    assert len(subjects) == len(set(subjects)) == 15
