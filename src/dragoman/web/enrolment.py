"""Enrolment: an unattended worker registers its own key with a one-time token."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dragoman.web.identity import Checks
from dragoman.web.job_documents import answer
from dragoman.web.problems import Problem
from dragoman.web.request_reading import read_bytes, read_json, require_json

_LARGEST: Final = 4096
_PATIENCE: Final = 10.0


class EnrolRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A one-time token, the public key to enrol, and its name."""

    token: str
    key: str
    name: str = ""


class EnrolmentRoutes:
    """The route. It needs no authentication: the one-time token authorises."""

    def __init__(self, checks: Checks | None) -> None:
        self._checks = checks

    async def enrol(self, request: Request) -> Response:
        """POST /v1/enrol."""
        require_json(request.headers)
        body = read_json(await read_bytes(request, _LARGEST, _PATIENCE), EnrolRequest)
        if self._checks is None or self._checks.enrol is None:
            raise Problem(404, "there is no enrolment: security is off")
        try:
            principal = self._checks.enrol(body.token, body.key, body.name)
        except ValueError as error:
            raise Problem(403, str(error), "denied") from None
        return answer({"principal": principal}, 201)
