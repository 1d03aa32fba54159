"""ZSS says what went wrong with HTTP status codes and a map of words for people.

The two clients read different members: JavaScript wants `code`, Ruby `errorCode`. Both are always
written, so that both see the broker's own words. `fault` is for Dragoman's own peers.
"""

from collections.abc import Mapping
from typing import Any, Final

from dragoman.dialects.zss import oldpack
from dragoman.model.fault import Fault, FaultCode

_STATUS: Final = {
    FaultCode.BAD_REQUEST: 400,
    FaultCode.TOO_LARGE: 413,
    FaultCode.UNMAPPABLE: 422,
    FaultCode.DENIED: 403,
    FaultCode.CONFLICT: 409,
    FaultCode.UNKNOWN_JOB: 404,
    FaultCode.NO_WORKER: 404,
    FaultCode.QUEUE_FULL: 429,
    FaultCode.DRAINING: 503,
    FaultCode.QUEUE_TIMEOUT: 503,
    FaultCode.RUN_TIMEOUT: 504,
    FaultCode.JOB_TIMEOUT: 504,
    FaultCode.TASK_FAILED: 500,
    FaultCode.WORKER_LOST: 502,
    FaultCode.HANDED_BACK: 503,
    FaultCode.UNDELIVERED: 502,
    FaultCode.EXHAUSTED: 502,
    FaultCode.TOO_MANY_HOPS: 508,
    FaultCode.CANCELLED: 410,
    FaultCode.CANCEL_UNCONFIRMED: 410,
}
#: The words every ZSS component uses for these two: developer's, then user's.
_WORDS: Final = {
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
    """Write a fault as a payload; where the protocol has words of its own, in those."""
    status = _STATUS[fault.code]
    developer, user = _WORDS.get(status, _WORDS[500])
    if fault.message and fault.code is not FaultCode.NO_WORKER:
        developer = fault.message
    return _payload(developer, user, status, fault.code.value)


def refusal_payload(status: int) -> bytes:
    """Write the standard payload of a status the protocol has words for."""
    return _payload(*_WORDS[status], status)


def _payload(developer: str, user: str, status: int, fault: str = "") -> bytes:
    said: dict[str, Any] = {"developerMessage": developer, "userMessage": user}
    said |= {"errorCode": status, "code": status}
    return oldpack.encode(said | {"fault": fault} if fault else said)


def read_fault(status: int | None, said: Any) -> Fault:
    """Read a fault out of a reply's status and payload."""
    if not isinstance(said, Mapping):
        words = f"status {status}" if status is not None else "no status"
        return Fault(FaultCode.TASK_FAILED, words)
    words = said.get("developerMessage") or said.get("userMessage") or f"status {status}"
    return Fault(fault_code(said.get("fault")), words if isinstance(words, str) else str(words))


def fault_code(said: object) -> FaultCode:
    """Read the name of a fault, whatever a peer put in its place."""
    if isinstance(said, str) and said in _CODES:
        return FaultCode(said)
    return FaultCode.TASK_FAILED
