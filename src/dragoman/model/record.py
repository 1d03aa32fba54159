"""The record: one flat, versioned row of the ledger.

Every state change of the broker is one record. Bodies are stored separately under the same sequence
number, so that folds and the pipeline never read them.

A schema change adds fields at the end, with defaults, raises `VERSION`, and adds the new width to
`ledger.rows.WIDTHS`; tables, segments and the pipeline follow. Readers use the defaults for older
rows. Fields are never removed, renamed or given another meaning.
"""

from enum import StrEnum
from typing import Final

from dragoman.model.names import ANONYMOUS
from dragoman.model.value import value

VERSION: Final = 2


class Kind(StrEnum):
    """What happened. Job records repeat the job's constants (service, client, submitted_at)."""

    SUBMITTED = "submitted"  #: a job was accepted; body = the request
    REFUSED = "refused"  #: a submission was refused; `fault` says why; no job exists
    #: The same job was submitted again: replies now go to `client`, under the id in `detail` if
    #: the job was found by its key.
    ADOPTED = "adopted"
    #: The job got its parts; `detail` = worker names, one per line; for a job on resources,
    #: `target` = the resources of each part, one target per line.
    BOUND = "bound"
    #: Part `part` was sent to `worker` as attempt `attempt`; `count` = the number of the worker's
    #: last request that granted credit, if its wire numbers requests.
    DISPATCHED = "dispatched"
    ACCEPTED = "accepted"  #: the worker confirmed that it has the job
    PROGRESS = "progress"  #: the worker reported progress; body = the report
    INPUT_ASKED = "input_asked"  #: the worker asked the client for input; body = the question
    INPUT_GIVEN = "input_given"  #: the client sent input; body = the input
    #: The attempt ended without a result; `fault` says why: not run, lost, or failed and to be
    #: retried. `count` = milliseconds before the next attempt may start.
    REQUEUED = "requeued"
    FORWARDED = "forwarded"  #: the worker forwarded the job to `service`; body = the new request
    GATHERED = "gathered"  #: one part of several ended in `state`; body = its result
    ENDED = "ended"  #: the job reached its final `state`; body = the result of its only part
    CANCEL_ASKED = "cancel_asked"  #: somebody asked to cancel
    LATE = "late"  #: a reply of an old attempt or about a finished job: recorded, never applied
    #: A worker session began; `detail` = services, one per line; `count` = seconds that its jobs
    #: wait for it after a broker restart, if longer than the default.
    JOINED = "joined"
    RESYNCED = "resynced"  #: a connected worker registered again; fields as in `joined`
    LEFT = "left"  #: a worker session ended; `fault` or `detail` says why; `count` = beats heard
    OWNS = "owns"  #: `worker` now owns the resources in `detail`, one per line
    REJECTED = "rejected"  #: input from `peer` was malformed or hostile; `detail` says how
    UNDELIVERED = "undelivered"  #: a message for `peer` was not delivered; `detail` says why
    PUBLISHED = "published"  #: a worker published an event; `detail` = topic, body = the event
    FORGOTTEN = "forgotten"  #: the memoised answers of `service` are void
    STARTED = "started"  #: a broker process took over the ledger
    STOPPED = "stopped"  #: a broker process closed the ledger in an orderly way
    CHANGED = "changed"  #: inventory, policy, keys or settings changed; `detail` says what
    #: The policy allowed `principal` an operation that has no other record; `detail` = the verb and
    #: the rule that decided.
    ALLOWED = "allowed"
    DENIED = "denied"  #: the policy denied `principal` an operation; `detail` says which and why
    #: A queued part follows its resources: now bound to the worker in `detail` and the resources in
    #: `target`. A part number after the last is a new part, split off from another with as many
    #: attempts; `count` = how many of them were returned unrun.
    MOVED = "moved"
    SCHEDULED = "scheduled"  #: a schedule was declared or changed; `detail` = the schedule as JSON
    UNSCHEDULED = "unscheduled"  #: the schedule named in `detail` was removed
    #: A schedule was due at the instant `count` (seconds since the epoch); `job` = its job, empty
    #: if the tick was skipped; `detail` = the schedule as JSON.
    TICKED = "ticked"
    DROPPED = "dropped"  #: the dead letter `job` was dropped or retried; `detail` says which
    PAUSED = "paused"  #: jobs of `service` are not dispatched until it is resumed
    #: The limit of `service`, or of its `task`, is now `detail` (JSON; without members: none).
    LIMITED = "limited"
    NOTIFIED = "notified"  #: the webhook of `job` was delivered or given up; `detail` says which
    RESULT_FORGOTTEN = "result_forgotten"  #: the result of `job` is given out no more
    RESUMED = "resumed"  #: jobs of `service` are dispatched again
    DRAINED = "drained"  #: workers named `worker` get no jobs until they are undrained
    UNDRAINED = "undrained"  #: workers named `worker` get jobs again


@value
class Record:
    """One row. Empty text and zero mean "does not apply". Floats are instants, since the epoch."""

    seq: int  #: sequence number, from 1, without gaps
    at: float  #: when, in seconds since the epoch
    kind: str
    job: str = ""
    part: int = 0  #: index of the part in its job, from 0
    attempt: int = 0  #: counted at dispatch, from 1, per part
    service: str = ""
    task: str = ""
    client: str = ""  #: peer id of the client
    worker: str = ""  #: worker name
    peer: str = ""  #: peer id of the worker, or of the peer that caused the record
    principal: str = ANONYMOUS
    dialect: str = ""  #: dialect of the peer that caused the record
    target: str = ""
    state: str = ""  #: state of the job (or of the part, in `gathered`) after this record
    fault: str = ""
    detail: str = ""
    nbytes: int = 0  #: size of the body
    digest: str = ""  #: digest of the body
    priority: int = 0
    key: str = ""  #: idempotency key
    #: The terms that differ from the defaults, as text; in `ended`: the job's webhook, if any.
    terms: str = ""
    submitted_at: float = 0.0  #: in every record of a job
    deadline_at: float = 0.0  #: when the whole job expires
    count: int = 0
    strict: bool = True
    version: int = VERSION
    # Since version 2, in `submitted`:
    parent: str = ""  #: the job whose task submitted this one
    position: int = 0  #: its place among the children of its parent, from 1
