"""Problem documents (`application/problem+json`) and the HTTP status of each fault."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from dragoman.model.fault import Fault, FaultCode

MEDIA_TYPE: Final = "application/problem+json"
#: Seconds after which a caller may retry a 429 or 503.
RETRY_AFTER: Final = "1"

STATUS_OF: Final[dict[FaultCode, int]] = {
    FaultCode.BAD_REQUEST: 400,
    FaultCode.TOO_LARGE: 413,
    FaultCode.UNMAPPABLE: 422,
    FaultCode.DENIED: 403,
    FaultCode.CONFLICT: 409,
    FaultCode.DUPLICATE: 409,
    FaultCode.UNKNOWN_JOB: 404,
    FaultCode.RESULT_GONE: 410,
    FaultCode.NO_WORKER: 503,
    FaultCode.QUEUE_FULL: 429,
    FaultCode.DRAINING: 503,
    FaultCode.UNAVAILABLE: 503,
    FaultCode.QUEUE_TIMEOUT: 504,
    FaultCode.RUN_TIMEOUT: 504,
    FaultCode.JOB_TIMEOUT: 504,
    FaultCode.TASK_FAILED: 500,
    FaultCode.WORKER_LOST: 502,
    FaultCode.HANDED_BACK: 503,
    FaultCode.UNDELIVERED: 503,
    FaultCode.EXHAUSTED: 502,
    FaultCode.TOO_MANY_HOPS: 508,
    FaultCode.NOT_DETERMINISTIC: 409,
    FaultCode.CANCELLED: 410,
    FaultCode.CANCEL_UNCONFIRMED: 410,
}


class Problem(Exception):
    """Raised while a request is handled; the response is its document."""

    def __init__(
        self,
        status: int,
        detail: str,
        code: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        **members: object,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code or HTTPStatus(status).name.lower()
        self.headers = dict(headers or {})
        self.members = members

    def document(self) -> dict[str, object]:
        """Return the problem document."""
        return {
            "type": f"urn:dragoman:{self.code}",
            "title": self.code.replace("_", " "),
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            **self.members,
        }

    def response(self) -> Response:
        """Return the HTTP response."""
        body = msgspec.json.encode(self.document())
        return Response(body, self.status, self.headers, MEDIA_TYPE)


def of_fault(fault: Fault, **members: object) -> Problem:
    """Return the problem document of a fault."""
    status = STATUS_OF[fault.code]
    headers = {"Retry-After": RETRY_AFTER} if status in (429, 503) else None
    return Problem(
        status,
        fault.message or fault.code.value.replace("_", " "),
        fault.code.value,
        headers=headers,
        definite=fault.is_definite,
        **members,
    )


async def on_problem(request: Request, error: Exception) -> Response:
    """Respond with the raised problem."""
    assert isinstance(error, Problem)
    return error.response()


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Respond to an unknown route or a wrong method with a problem document."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = ", ".join(_allowed(request))
        detail = f"{request.url.path} takes {allowed}, not {request.method}"
        return Problem(405, detail, headers={"Allow": allowed}).response()
    detail = error.detail
    if error.status_code == 404:
        detail = f"no such path: {request.url.path}; /docs lists the paths"
    return Problem(error.status_code, detail, headers=error.headers).response()


def _allowed(request: Request) -> list[str]:
    """Return the methods of a path: of all its routes, where Starlette knows only the first."""
    routes = [each for each in request.app.routes if isinstance(each, Route)]
    matching = [each.path for each in routes if each.matches(request.scope)[0] is not Match.NONE]
    return sorted({m for each in routes if each.path in matching[:1] for m in each.methods or ()})


async def on_internal_error(request: Request, error: Exception) -> Response:
    """Respond to an unexpected exception."""
    return Problem(
        500, "internal error of the broker; its log has the traceback", "internal"
    ).response()
