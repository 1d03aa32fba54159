"""Faults and status codes: the text's codes, and those that NorFab's peers add (102, 201, 404).

NorFab's client fails a whole job on any 4xx or 5xx. The body carries the exact fault (`code`) for
our own peers.
"""

from typing import Final

from dragoman.model.fault import FaultCode

#: 400: the request is wrong. 408: it timed out. 417: there will be no result.
#: 500: the broker or a worker failed, try again later.
STATUS: Final[dict[FaultCode, bytes]] = {
    FaultCode.BAD_REQUEST: b"400",
    FaultCode.TOO_LARGE: b"400",
    FaultCode.UNMAPPABLE: b"417",
    FaultCode.DENIED: b"400",
    FaultCode.CONFLICT: b"400",
    FaultCode.DUPLICATE: b"400",
    FaultCode.UNKNOWN_JOB: b"404",
    FaultCode.RESULT_GONE: b"417",
    FaultCode.NO_WORKER: b"400",
    FaultCode.QUEUE_FULL: b"500",
    FaultCode.DRAINING: b"500",
    FaultCode.UNAVAILABLE: b"500",
    FaultCode.QUEUE_TIMEOUT: b"408",
    FaultCode.RUN_TIMEOUT: b"408",
    FaultCode.JOB_TIMEOUT: b"408",
    FaultCode.TASK_FAILED: b"500",
    FaultCode.WORKER_LOST: b"500",
    FaultCode.HANDED_BACK: b"500",
    FaultCode.UNDELIVERED: b"500",
    FaultCode.EXHAUSTED: b"500",
    FaultCode.TOO_MANY_HOPS: b"500",
    FaultCode.NOT_DETERMINISTIC: b"400",
    FaultCode.CANCELLED: b"417",
    FaultCode.CANCEL_UNCONFIRMED: b"417",
}

#: The fault of a status without a `code` in its body.
FAULT: Final[dict[bytes, FaultCode]] = {
    b"400": FaultCode.NO_WORKER,
    b"404": FaultCode.UNKNOWN_JOB,
    b"408": FaultCode.JOB_TIMEOUT,
    b"417": FaultCode.CANCELLED,
    b"500": FaultCode.TASK_FAILED,
}


def status_of(code: FaultCode, is_binary: bool = False) -> bytes:
    """Return the status of a fault. The text has no 404, so its peers get a 400."""
    status = STATUS[code]
    return b"400" if is_binary and status == b"404" else status


def code_of(status: bytes, code: object = None) -> FaultCode:
    """Return the fault of a status, preferably by the `code` in its body."""
    try:
        return FaultCode(str(code))
    except ValueError:
        return FAULT.get(status, FaultCode.TASK_FAILED)
