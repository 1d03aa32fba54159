"""Records are built here and nowhere else: from what they are about, and own fields.

A new field of a record changes this module only if a part, a job or a worker fills it in. Records
are built by keyword, but for the three that every job has: by keyword they take twice as long.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from dragoman.core.events import JobSubmitted
from dragoman.core.jobs import Job, JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.model.body import Body
from dragoman.model.fault import Fault
from dragoman.model.record import VERSION, Kind, Record
from dragoman.model.terms import Terms, terms_text

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


def submitted_record(
    seq: int,
    at: float,
    event: JobSubmitted,
    terms: Terms,
    *,
    dialect: str,
    digest: str,
    deadline_at: float,
) -> Record:
    """Build the record of a new job, by position. `terms`: those of the event without a parent."""
    parent = event.terms.parent
    no_part, no_attempt, no_worker, no_peer, no_fault, no_detail, no_count = 0, 0, "", "", "", "", 0
    return Record(
        seq,
        at,
        Kind.SUBMITTED,
        event.job,
        no_part,
        no_attempt,
        event.service,
        event.task,
        event.client,
        no_worker,
        no_peer,
        event.principal,
        dialect,
        str(event.target),
        "queued",
        no_fault,
        no_detail,
        event.body.size,
        digest,
        terms.priority,
        event.key,
        terms_text(terms),
        at,
        deadline_at,
        no_count,
        terms.strict,
        VERSION,
        parent.job if parent else "",
        parent.position if parent else 0,
    )


def part_record(
    seq: int,
    at: float,
    kind: Kind,
    part: JobPart,
    *,
    by: RegisteredWorker | None,
    state: str,
    attempt: int,
    count: int = 0,
    failure: Fault | None = None,
    body: Body | None = None,
    terms: str = "",
) -> Record:
    """Build a record about a part as `build_record` does, by position."""
    job, no_target, no_key = part.job, "", ""
    worker, peer, dialect = part.worker, part.peer, ""
    if by is not None:
        worker, peer, dialect = by.name, by.peer, by.dialect
    fault, detail = ("", "") if failure is None else (failure.code, failure.message)
    return Record(
        seq,
        at,
        kind,
        job.id,
        part.index,
        attempt,
        part.service,
        part.task,
        job.client,
        worker,
        peer,
        job.principal,
        dialect,
        no_target,
        state,
        fault,
        detail,
        0 if body is None else body.size,
        "" if body is None else body.digest(),
        job.terms.priority,
        no_key,
        terms,
        job.submitted_at,
        job.deadline_at,
        count,
        job.terms.strict,
    )


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
