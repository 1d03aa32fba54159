"""Middleware: code around every job of a worker, and around every submission of a client.

Hooks of a worker run where the task runs: in its thread, on the event loop of async tasks, or in
its process. Hooks of a client run in the client's event loop. Both must be short, and safe to use
from several threads.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dragoman.dialects.peer_sides import Finished, Submission
from dragoman.model.content import Answer, Call

if TYPE_CHECKING:
    from dragoman.sdk.context import JobContext


class Middleware:
    """Override what you need. `before_` hooks run in order, the others in reverse order."""

    def before_job(self, job: "JobContext", call: Call) -> Call | None:
        """Return another call for the task, or None. An exception fails the job."""
        return None

    def after_job(self, job: "JobContext", call: Call, answer: Answer) -> None:
        """Note the answer of a task that succeeded."""

    def on_failure(self, job: "JobContext", call: Call, error: BaseException) -> None:
        """Note what a task, or a `before_job` hook, raised."""

    def before_submit(self, submission: Submission) -> Submission | None:
        """Return another submission, or None. An exception ends `submit`."""
        return None

    def after_result(self, submission: Submission, finished: Finished) -> None:
        """Note that a job of this client succeeded."""

    def on_failed_job(self, submission: Submission, finished: Finished) -> None:
        """Note that a job of this client failed, expired or was cancelled."""


# --- worker -------------------------------------------------------------------------------------


def call_before(hooks: Sequence[Middleware], job: Any, call: Call) -> Call:
    """Run the `before_job` hooks; return the call for the task."""
    for each in hooks:
        call = each.before_job(job, call) or call
    return call


def note_answer(hooks: Sequence[Middleware], job: Any, call: Call, answer: Answer) -> None:
    """Run the `after_job` hooks."""
    _note(hooks, lambda each: each.after_job(job, call, answer))


def note_error(hooks: Sequence[Middleware], job: Any, call: Call, error: BaseException) -> None:
    """Run the `on_failure` hooks. A forward is no failure."""
    from dragoman.sdk.task_results import ForwardRequested  # a client does not load it

    if not isinstance(error, ForwardRequested):
        _note(hooks, lambda each: each.on_failure(job, call, error))


# --- client -------------------------------------------------------------------------------------


def submission_before(hooks: Sequence[Middleware], submission: Submission) -> Submission:
    """Run the `before_submit` hooks; return the submission to send."""
    for each in hooks:
        submission = each.before_submit(submission) or submission
    return submission


def note_finished(hooks: Sequence[Middleware], submission: Submission, finished: Finished) -> None:
    """Run the hooks for the end of a job."""
    has_failed = finished.fault or any(answer.fault for answer in finished.answers)
    _note(
        hooks,
        lambda each: (each.on_failed_job if has_failed else each.after_result)(
            submission, finished
        ),
    )


def _note(hooks: Iterable[Middleware], tell: Callable[[Middleware], None]) -> None:
    """Run hooks in reverse order. What they raise is logged: the job has ended already."""
    for each in reversed(tuple(hooks)):
        try:
            tell(each)
        except Exception as error:
            import structlog  # a client does not load it

            log = structlog.get_logger("dragoman.middleware")
            log.warning("a middleware failed", middleware=type(each).__name__, reason=repr(error))
