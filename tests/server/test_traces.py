"""Spans of jobs and attempts; their export; and one trace through two dialects."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from scripts.trace_picture import Receiver
from scripts.trace_picture import collector as running_collector
from tests.web.caller import Caller, until

from dragoman import Worker
from dragoman.dialects.registry import body_codecs
from dragoman.ledger.base import Entry
from dragoman.model.body import Body
from dragoman.model.record import Kind, Record
from dragoman.model.trace import read_trace, span_id
from dragoman.server.traces import FinishedSpan, JobTraces
from dragoman.testing.harness import LocalBroker

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def tell(traces: JobTraces, at: float, kind: Kind, body: Body | None = None, **more: Any) -> None:
    fields: dict[str, Any] = {"service": "math", "task": "add", "client": "nfp/c"}
    traces.durable([Entry(Record(1, at, kind, "j", **(fields | more)), body)])


def spans(
    *happened: tuple[float, Kind, dict[str, Any]], parent: str = PARENT
) -> list[FinishedSpan]:
    found: list[FinishedSpan] = []
    traces = JobTraces(found.append, body_codecs())
    call = {"task": "add", "headers": {"traceparent": parent} if parent else {}}
    tell(traces, 1.0, Kind.SUBMITTED, Body("http", (json.dumps(call).encode(),)))
    for at, kind, more in happened:
        tell(traces, at, kind, **more)
    return found


SENT = (2.0, Kind.DISPATCHED, {"worker": "w1", "attempt": 1})
LOST = (3.0, Kind.REQUEUED, {"fault": "worker_lost"})
AGAIN = (4.0, Kind.DISPATCHED, {"worker": "w2", "attempt": 2})
ENDED = (5.0, Kind.ENDED, {"state": "succeeded"})


def test_a_job_and_its_attempt_are_spans_of_the_callers_trace() -> None:
    attempt, job = spans(SENT, ENDED)
    assert (job.trace, job.parent, job.start, job.end) == (TRACE, SPAN, 1.0, 5.0)
    assert (attempt.trace, attempt.parent, attempt.start, attempt.end) == (
        TRACE,
        job.span,
        2.0,
        5.0,
    )
    assert attempt.attributes["dragoman.worker"] == "w1"


def test_a_retry_links_to_the_attempt_before_it() -> None:
    first, second, job = spans(SENT, LOST, AGAIN, ENDED)
    assert (first.fault, first.end) == ("worker_lost", 3.0)
    assert (second.link, second.fault) == (first.span, "")
    assert ("requeued", 3.0) in job.events


def test_a_job_without_a_context_has_a_trace_of_its_own() -> None:
    [job] = spans((5.0, Kind.ENDED, {"state": "expired", "fault": "queue_timeout"}), parent="")
    assert job.trace == read_trace({}, "j").trace
    assert (job.parent, job.span, job.fault) == ("", span_id("j", "job"), "queue_timeout")


def test_a_trace_that_is_not_sampled_is_not_exported() -> None:
    assert spans(SENT, ENDED, parent=f"00-{TRACE}-{SPAN}-00") == []


# --- over the wire --------------------------------------------------------------------------------


@pytest.fixture
def collector() -> Iterator[str]:
    with running_collector() as url:
        yield url


@pytest.mark.interop
@pytest.mark.parametrize("dialect", ["zss", "dcp"])
def test_a_trace_crosses_the_bridge_and_reaches_a_collector(collector: str, dialect: str) -> None:
    seen: list[str] = []
    traces = {"endpoint": collector}
    with LocalBroker(
        "dcp", "zss", "zss_backend", "http", traces=traces, ledger={"seal": False}
    ) as broker:
        url = broker.url(dialect, for_workers=True)
        worker = Worker(url, service="math", own_process_beats=False)

        @worker.task
        def add(x: int, y: int, job: Any) -> int:
            seen.append(job.headers.get("traceparent", ""))
            return x + y

        with worker:
            call = {"service": "math", "task": "add", "args": [1, 2]}
            job = (
                Caller(broker.endpoints["http"])
                .post("/v1/call", call, traceparent=PARENT)
                .json["job"]
            )
            until(lambda: len(Receiver.found) >= 2, "two spans")
    assert seen == [PARENT]
    by_id = {each.span_id.hex(): each for each in Receiver.found}
    span = by_id[span_id(job, "job")]
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, SPAN)
    assert {each.trace_id.hex() for each in Receiver.found} == {TRACE}
