"""Retries of failed attempts: which policy applies, and how long a part waits.

The retries of the job come first: those of its call, or else of its task's or service's settings.
If none of them says anything, not even 0, the worker's own for the task apply, which it announced
when it joined. A worker that is a broker retries by itself: the job keeps its id, so a second
dispatch would not run it again.
"""

from dragoman.core.jobs import JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.fault import Fault
from dragoman.model.retry import LABEL, NO_RETRY, Retry, asked_wait, read_label


def retry_wait(
    state: BrokerState, part: JobPart, fault: Fault, worker: RegisteredWorker | None
) -> float | None:
    """Return the seconds before a failed part runs again; None: it does not."""
    job, policy = part.job, policy_of(part, worker)
    if job.cancel_asked_at or part.failures >= policy.times or not policy.covers(fault):
        return None
    asked = asked_wait(fault)
    wait = policy.wait(part.failures + 1, job.id) if asked is None else asked
    # The deadline is above all: a retry that cannot start in time would only hide the failure.
    if job.deadline_at and state.now + wait >= job.deadline_at:
        return None
    return wait


def policy_of(part: JobPart, worker: RegisteredWorker | None) -> Retry:
    """Return the retries of a part: the job's, or else what its worker declares for the task."""
    if worker is not None and worker.route:
        return NO_RETRY
    if part.job.terms.retry is not None:
        return part.job.terms.retry
    label = worker.labels.get(LABEL + part.task) if worker is not None and part.task else None
    return read_label(label) if label else NO_RETRY
