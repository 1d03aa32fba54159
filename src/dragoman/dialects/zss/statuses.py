"""Faults in ZSS: an HTTP status code and a map of messages.

The two published clients read different members: JavaScript reads `code`, Ruby `errorCode`. Both
are always written. `fault` holds the fault code, for Dragoman's own peers, and `detail` the reason
where the protocol has a fixed message.
"""

from collections.abc import Mapping
from typing import Final

from dragoman.dialects.zss import oldpack
from dragoman.model.fault import Fault, FaultCode

_STATUS: Final = {
    FaultCode.BAD_REQUEST: 400,
    FaultCode.TOO_LARGE: 413,
    FaultCode.UNMAPPABLE: 422,
    FaultCode.DENIED: 403,
    FaultCode.CONFLICT: 409,
    FaultCode.DUPLICATE: 409,
    FaultCode.UNKNOWN_JOB: 404,
    FaultCode.RESULT_GONE: 410,
    FaultCode.NO_WORKER: 404,
    FaultCode.QUEUE_FULL: 429,
    FaultCode.DRAINING: 503,
    FaultCode.UNAVAILABLE: 503,
    FaultCode.QUEUE_TIMEOUT: 503,
    FaultCode.RUN_TIMEOUT: 504,
    FaultCode.JOB_TIMEOUT: 504,
    FaultCode.TASK_FAILED: 500,
    FaultCode.WORKER_LOST: 502,
    FaultCode.HANDED_BACK: 503,
    FaultCode.UNDELIVERED: 502,
    FaultCode.EXHAUSTED: 502,
    FaultCode.TOO_MANY_HOPS: 508,
    FaultCode.NOT_DETERMINISTIC: 409,
    FaultCode.CANCELLED: 410,
    FaultCode.CANCEL_UNCONFIRMED: 410,
}
#: The messages that every ZSS component uses: for developers, then for users.
_MESSAGES: Final = {
    404: ("The resource could not be found.", "The content you requested was not found."),
    500: (
        "There was an error while processing this request. "
        "There is probably something wrong with the API server.",
        "There was an error while processing this request.",
    ),
}
_CODES: Final = frozenset(code.value for code in FaultCode)


def status_of(fault: Fault) -> bytes:
    """Return the status frame of a fault."""
    return str(_STATUS[fault.code]).encode()


def fault_payload(fault: Fault) -> bytes:
    """Write a fault as a payload, with the protocol's own message where it has one."""
    status = _STATUS[fault.code]
    developer, user = _MESSAGES.get(status, _MESSAGES[500])
    if fault.code is FaultCode.NO_WORKER:
        return _payload(developer, user, status, fault.code.value, fault.message)
    return _payload(fault.message or developer, user, status, fault.code.value)


def refusal_payload(status: int, detail: str = "") -> bytes:
    """Write the standard payload of status 404 or 500, with the reason if it is known."""
    return _payload(*_MESSAGES[status], status, detail=detail)


def denied_payload(fault: Fault) -> bytes:
    """Write the payload of a refused registration: the standard one with the reason."""
    return _payload(fault.message, _MESSAGES[500][1], 500, fault.code)


def _payload(developer: str, user: str, status: int, fault: str = "", detail: str = "") -> bytes:
    content: dict[str, object] = {"developerMessage": developer, "userMessage": user}
    content |= {"errorCode": status, "code": status}
    more = {"fault": fault, "detail": detail}
    return oldpack.encode(content | {name: text for name, text in more.items() if text})


def read_fault(status: int | None, content: object) -> Fault:
    """Read the fault in a reply's status and payload."""
    if not isinstance(content, Mapping):
        message = f"status {status}" if status is not None else "no status"
        return Fault(FaultCode.TASK_FAILED, message)
    members = (content.get(name) for name in ("detail", "developerMessage", "userMessage"))
    message = next(filter(None, members), f"status {status}")
    return Fault(fault_code(content.get("fault")), str(message))


def fault_code(code: object) -> FaultCode:
    """Read a fault code; TASK_FAILED if it is unknown or not text."""
    if isinstance(code, str) and code in _CODES:
        return FaultCode(code)
    return FaultCode.TASK_FAILED
