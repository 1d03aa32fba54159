"""The one flat, versioned ledger row.

Every state change of the broker is one record. Bodies are stored beside the records, under the
same sequence number, so that folds and the pipeline never touch them.

A schema change adds fields at the end, with defaults, and raises `VERSION`; readers fill what
an older row lacks. Fields are never removed, renamed or given another meaning.
"""

from enum import StrEnum
from typing import Final

from dragoman.model.names import ANONYMOUS
from dragoman.model.value import value

VERSION: Final = 1


class Kind(StrEnum):
    """What a record says. Job records carry the job's constants (service, client, submitted_at)."""

    SUBMITTED = "submitted"  #: a job was taken in; body = the request
    REFUSED = "refused"  #: a submission was turned down; `fault` says why; not a job
    #: The same job was submitted again: replies go to `client` from now on, under the id in
    #: `detail` where it was recognised by its key.
    ADOPTED = "adopted"
    #: The job's parts were fixed; `detail` = worker names, one per line; `target` = the resources
    #: each is for, one target per line, where the job is for resources.
    BOUND = "bound"
    DISPATCHED = "dispatched"  #: part `part` went to `worker` as attempt `attempt`
    ACCEPTED = "accepted"  #: the worker confirmed that it has it
    PROGRESS = "progress"  #: the worker reported; body = the report
    INPUT_ASKED = "input_asked"  #: the worker asked the client a question; body = the question
    INPUT_GIVEN = "input_given"  #: the client answered; body = the answer
    REQUEUED = "requeued"  #: the attempt ended without a result; `fault` says why
    FORWARDED = "forwarded"  #: the worker passed the job on to `service`; body = the new request
    GATHERED = "gathered"  #: one part of several ended in `state`; body = its result
    ENDED = "ended"  #: the job reached its final `state`; body = the result of its only part
    CANCEL_ASKED = "cancel_asked"  #: somebody asked to cancel
    LATE = "late"  #: a result of an old attempt or a finished job: recorded, never applied
    #: A worker session began; `detail` = services, one per line; `count` = how many seconds its
    #: work waits for it after a restart of the broker, where its kind needs long to come back.
    JOINED = "joined"
    RESYNCED = "resynced"  #: a live worker said READY again; fields as in `joined`
    LEFT = "left"  #: a worker session ended; `fault` or `detail` says why; `count` = beats heard
    OWNS = "owns"  #: `worker` now owns the resources in `detail`, one per line
    REJECTED = "rejected"  #: input from `peer` was malformed or hostile; `detail` says how
    UNDELIVERED = "undelivered"  #: a message for `peer` found a full queue or nobody
    PUBLISHED = "published"  #: a worker published an event; `detail` = topic, body = the event
    FORGOTTEN = "forgotten"  #: the memoised answers of `service` are void
    STARTED = "started"  #: a broker process took over the ledger
    STOPPED = "stopped"  #: a broker process let go of it in good order
    CHANGED = "changed"  #: inventory, policy, keys or settings changed; `detail` says what
    #: The policy let `principal` do something that has no record of its own; `detail` = the verb
    #: and the rule that decided.
    ALLOWED = "allowed"
    DENIED = "denied"  #: `principal` was not let do something; `detail` says what and why
    #: A waiting part follows its resources: it is for the worker in `detail` and the resources in
    #: `target` now. A part number beyond the last is a new part, split off from another with as
    #: many attempts; `count` = how many of them came back unrun.
    MOVED = "moved"


@value
class Record:
    """One row. Empty text and zero mean "does not apply"."""

    seq: int  #: position in the ledger, from 1, without gaps
    at: float  #: when, in seconds since the epoch
    kind: str
    job: str = ""
    part: int = 0  #: which assignment of a job that has several, from 0
    attempt: int = 0  #: counted at dispatch, from 1, per part
    service: str = ""
    task: str = ""
    client: str = ""  #: peer id of the client
    worker: str = ""  #: worker name
    peer: str = ""  #: peer id of the worker, or of whoever caused the record
    principal: str = ANONYMOUS
    dialect: str = ""  #: dialect of the peer that caused the record
    target: str = ""
    state: str = ""  #: state of the job (or of the part, in `gathered`) after this record
    fault: str = ""
    detail: str = ""
    nbytes: int = 0  #: size of the body stored beside
    digest: str = ""  #: fingerprint of that body
    priority: int = 0
    key: str = ""  #: idempotency key
    terms: str = ""  #: the terms that differ from the defaults, as text
    submitted_at: float = 0.0  #: in every record of a job
    deadline_at: float = 0.0  #: when the whole job expires
    count: int = 0
    strict: bool = True
    version: int = VERSION
