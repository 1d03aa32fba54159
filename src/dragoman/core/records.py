"""Records are built here and nowhere else, by keyword: from what they are about, and own fields.

So a new field of a record changes this module only if a part, a job or a worker fills it in.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from dragoman.core.jobs import Job, JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.model.body import Body
from dragoman.model.fault import Fault
from dragoman.model.record import Kind, Record

#: What a record can be about.
About = Job | JobPart | RegisteredWorker | None


def build_record(
    seq: int,
    at: float,
    kind: Kind,
    about: About = None,
    by: RegisteredWorker | None = None,
    failure: Fault | None = None,
    body: Body | None = None,
    fields: Mapping[str, object] = MappingProxyType({}),
) -> Record:
    """Build a record.

    Args:
        seq: its sequence number.
        at: when, in seconds since the epoch.
        kind: what happened.
        about: the job, part or worker session that it is about; fills in what is known of it.
        by: the worker that caused it; by default, the one that holds the part.
        failure: fills in the fault and its message.
        body: fills in its size and digest.
        fields: fields of `Record` by name. They override all else.

    """
    found = _ABOUT[type(about)](about)
    if by is not None:
        found["worker"], found["peer"], found["dialect"] = by.name, by.peer, by.dialect
    if failure is not None:
        found["fault"], found["detail"] = failure.code, failure.message
    if body is not None:
        found["nbytes"], found["digest"] = body.size, body.digest()
    found.update(fields)
    return Record(seq, at, kind, **found)


def _of_job(job: Job) -> dict[str, object]:
    terms = job.terms
    return {
        "job": job.id,
        "service": job.service,
        "task": job.task,
        "client": job.client,
        "principal": job.principal,
        "priority": terms.priority,
        "submitted_at": job.submitted_at,
        "deadline_at": job.deadline_at,
        "strict": terms.strict,
    }


def _of_part(part: JobPart) -> dict[str, object]:
    # One literal: this is the hot path, and joining two costs a microsecond.
    job, terms = part.job, part.job.terms
    return {
        "job": job.id,
        "part": part.index,
        "attempt": part.attempt,
        "service": part.service,
        "task": part.task,
        "client": job.client,
        "worker": part.worker,
        "peer": part.peer,
        "principal": job.principal,
        "priority": terms.priority,
        "submitted_at": job.submitted_at,
        "deadline_at": job.deadline_at,
        "strict": terms.strict,
    }


def _of_session(worker: RegisteredWorker) -> dict[str, object]:
    return {
        "worker": worker.name,
        "peer": worker.peer,
        "principal": worker.principal,
        "dialect": worker.dialect,
        "service": worker.services[0] if len(worker.services) == 1 else "",
    }


_ABOUT: Final[dict[type, Callable[[Any], dict[str, Any]]]] = {
    Job: _of_job,
    JobPart: _of_part,
    RegisteredWorker: _of_session,
    type(None): lambda nothing: {},
}
