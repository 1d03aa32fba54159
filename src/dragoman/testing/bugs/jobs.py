"""Planted bugs of jobs: a job ends too soon, twice, for the wrong client or with a wrong answer."""

from collections.abc import Iterator
from typing import Any, Final

from dragoman.core import broker, endings, replies, state, submissions, workers
from dragoman.core.events import JobForwarded, JobSubmitted, ReplyReceived
from dragoman.core.jobs import Job, JobPart
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import PeerId
from dragoman.model.target import Target
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


@BUGS.add
def forgotten_cancel() -> Iterator[None]:
    """A cancelled job that its worker returns is tried again."""

    def requeue_or_end(state: state.BrokerState, part: JobPart, fault: Fault) -> None:
        asked, part.job.cancel_asked_at = part.job.cancel_asked_at, 0.0
        try:
            old(state, part, fault)
        finally:
            part.job.cancel_asked_at = asked

    old = endings.requeue_or_end
    with (
        replaced(replies, "requeue_or_end", requeue_or_end),
        replaced(workers, "requeue_or_end", requeue_or_end),
    ):
        yield


@BUGS.add
def stale_result_applied() -> Iterator[None]:
    """The attempt number of a result is ignored."""

    def reply_received(state: state.BrokerState, event: Any) -> None:
        event.attempt = None
        old(state, event)

    old = broker.HANDLERS[ReplyReceived]
    with replaced(broker.HANDLERS, ReplyReceived, reply_received):  # type: ignore[arg-type]
        yield


@BUGS.add
def gather_ends_early() -> Iterator[None]:
    """A job with several parts ends with the first."""

    def open_parts(self: Job) -> list[JobPart]:
        found = old(self)
        is_under_way = len(found) < len(self.parts)
        return [] if is_under_way and self.state is JobState.RUNNING else found

    old = Job.open_parts
    with replaced(Job, "open_parts", open_parts):
        yield


@BUGS.add
def duplicate_run_on_resubmission() -> Iterator[None]:
    """A finished job that is submitted again runs again."""

    def known(state: state.BrokerState, event: JobSubmitted) -> Job | None:
        job = old(state, event)
        return job if job is None or not job.is_final else None

    old = submissions._known
    with replaced(submissions, "_known", known):
        yield


@BUGS.add
def hand_over_loses_the_client() -> Iterator[None]:
    """A forwarded job answers the worker that forwarded it."""

    def forward_part(
        state: state.BrokerState, part: JobPart, event: JobForwarded, target: Target
    ) -> None:
        part.job.client = PeerId(event.worker)
        old(state, part, event, target)

    old = endings.forward_part
    with replaced(replies, "forward_part", forward_part):
        yield


@BUGS.add
def memo_answers_the_wrong_body() -> Iterator[None]:
    """A memoised answer is found by service alone."""

    def submitted(state: state.BrokerState, event: JobSubmitted) -> None:
        memo = state.store.memo
        if event.terms.memoize:
            for (service, _), job in list(memo.items()):
                if service == event.service:
                    memo[service, event.body.digest()] = job
        old(state, event)

    old = broker.HANDLERS[JobSubmitted]
    with replaced(broker.HANDLERS, JobSubmitted, submitted):  # type: ignore[arg-type]
        yield


@BUGS.add
def dead_too_late() -> Iterator[None]:
    """A job is tried once more than allowed."""

    def requeue_or_end(state: state.BrokerState, part: JobPart, fault: Fault) -> None:
        if fault.code is FaultCode.WORKER_LOST:
            part.returned += 1
        old(state, part, fault)

    old = endings.requeue_or_end
    with replaced(workers, "requeue_or_end", requeue_or_end):
        yield


@BUGS.add
def reply_to_a_client_that_left() -> Iterator[None]:
    """A client that left is not forgotten."""
    with replaced(state.BrokerState, "forget_client", lambda self, peer: None):
        yield
