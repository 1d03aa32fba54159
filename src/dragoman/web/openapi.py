"""The OpenAPI 3.1 description of the HTTP API, made from the structs that read the requests."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from dragoman.dialects.http.settings import HttpSettings
from dragoman.model.job import JobState
from dragoman.model.search import LARGEST_PAGE
from dragoman.web.api_page import PAGE_POLICY, api_page
from dragoman.web.api_schemas import (
    REFERENCE,
    OpenApiPart,
    request_schemas,
    response_schemas,
    rows_of,
)
from dragoman.web.enrolment import EnrolRequest
from dragoman.web.event_streams import MOST_TOPICS
from dragoman.web.history_routes import LONGEST_TEXT
from dragoman.web.identity import COOKIE, CSRF_HEADER
from dragoman.web.job_documents import answer
from dragoman.web.jobs import InputAnswer, JobRequest, JobRequests
from dragoman.web.login import LoginRequest
from dragoman.web.problems import MEDIA_TYPE, STATUS_OF
from dragoman.web.request_reading import CLIENT_HEADER, KEY_HEADER, NAME_PATTERN, PRINTABLE
from dragoman.web.workers import (
    PollRequest,
    PublishRequest,
    WorkerRegistration,
    WorkerReport,
    WorkerReports,
)

_REQUESTS: Final = (
    JobRequest,
    JobRequests,
    InputAnswer,
    WorkerRegistration,
    PollRequest,
    WorkerReport,
    WorkerReports,
    PublishRequest,
    LoginRequest,
    EnrolRequest,
)
_JSON: Final = "application/json"
_BYTES: Final = "application/octet-stream"
_SSE: Final = "text/event-stream"

_OBJECT: Final = {"type": "object"}
_TEXT: Final = {"type": "string"}
_ASCII: Final = "^[ -~]{0,256}$"


def _whole(low: int, high: int, **more: int) -> dict[str, object]:
    return {"type": "integer", "minimum": low, "maximum": high, **more}


def _span(low: float, high: float) -> dict[str, object]:
    return {"type": "number", "minimum": low, "maximum": high}


def _parameter(name: str, place: str, schema: object, text: str = "") -> dict[str, object]:
    found = {"name": name, "in": place, "schema": schema, "description": text}
    return found | ({"required": True} if place == "path" else {})


_JOB: Final = _parameter("job", "path", _TEXT, "The job's id.")
_SESSION: Final = _parameter("session", "path", _TEXT, "The worker's session.")
_ATTEMPT: Final = _parameter("attempt", "path", _whole(0, 2**31 - 1), "As in the job message.")
_SERVICE: Final = _parameter("service", "path", {**_TEXT, **PRINTABLE})
_KEY: Final = _parameter(
    KEY_HEADER, "header", {**_TEXT, "pattern": _ASCII}, "The same key is the same job."
)
_CLIENT: Final = _parameter(
    CLIENT_HEADER,
    "header",
    {**_TEXT, "pattern": f"^{NAME_PATTERN}$"},
    "Your name; else your address.",
)
_WAIT: Final = _parameter(
    "wait", "query", {"$ref": "#/components/schemas/Wait"}, "Seconds to wait for the end."
)
_LAST: Final = _parameter(
    "Last-Event-ID", "header", _whole(-1, 2**63 - 1), "Resume after this position."
)
_TOPICS: Final = {"type": "array", "items": {**_TEXT, "maxLength": 256}, "maxItems": MOST_TOPICS}
_TOPIC: Final = _parameter("topic", "query", _TOPICS, "Globs.")
_ISSUER: Final = _parameter("issuer", "path", {**_TEXT, "maxLength": 31}, "Of the settings.")
_AFTER: Final = _parameter("after", "query", _whole(-1, 2**63 - 1), "0: all; -1: from now on.")
_STATE: Final = _parameter("state", "query", {"type": "string", "enum": list(JobState)})
_LIMIT: Final = _parameter("limit", "query", _whole(1, 10_000, default=100))
_OF_SERVICE: Final = _parameter("service", "query", _TEXT)
_SEQ: Final = _parameter("seq", "path", _whole(0, 2**63 - 1), "The record's sequence number.")
_FILE: Final = _parameter("name", "path", _TEXT, "The file's name.")
_REPORT: Final = _parameter("name", "path", _TEXT, "The report's name.")
_KIND: Final = _parameter("kind", "query", {"type": "array", "items": _TEXT}, "Kinds of records.")
_FILTER: Final = {**_TEXT, "maxLength": LONGEST_TEXT}
_RANGE: Final = [_parameter(name, "query", _span(0, 1e12)) for name in ("since", "until")]
_SEARCH: Final = [
    _STATE,
    *(
        _parameter(name, "query", _FILTER)
        for name in (
            *("service", "task", "client", "worker", "principal", "dialect", "worker_link"),
            *("fault", "text"),
        )
    ),
    *_RANGE,
    _parameter("before", "query", _whole(0, 2**62), "Continue before this record."),
    _parameter("limit", "query", _whole(1, LARGEST_PAGE, default=50)),
]
_FAULT: Final = _parameter("fault", "query", _TEXT, "Only with this fault.")
_OLDER: Final = _parameter(
    "older", "query", _span(0, 1e9), "Ended so many seconds ago, or earlier."
)
_RAW_TERMS: Final = [
    _parameter(name, "query", {"$ref": f"#/components/schemas/JobRequest/properties/{name}"})
    for name in ("task", "target", "timeout", "priority", "key", "job")
]


def _operation(
    summary: str,
    good: dict[int, str],
    parameters: list[OpenApiPart] | None = None,
    body: str = "",
    media: str = _JSON,
    schemas: Mapping[int, str | OpenApiPart] | None = None,
) -> OpenApiPart:
    """Describe one operation; each one may return a problem. `schemas`: by name, or in full."""
    responses: OpenApiPart = {str(status): {"description": text} for status, text in good.items()}
    for status, response in responses.items():
        if media != "":
            named = (schemas or {}).get(int(status), _OBJECT if media == _JSON else _TEXT)
            schema = {"$ref": REFERENCE.format(name=named)} if isinstance(named, str) else named
            response["content"] = {media: {"schema": schema}}
    responses["default"] = {"$ref": "#/components/responses/Problem"}
    found: OpenApiPart = {"summary": summary, "responses": responses}
    if parameters:
        found["parameters"] = parameters
    if body:
        schema = {"$ref": f"#/components/schemas/{body}"} if body != _BYTES else _TEXT
        kind = _BYTES if body == _BYTES else _JSON
        found["requestBody"] = {"content": {kind: {"schema": schema}}, "required": True}
    return found


_RESULT: Final[dict[int, str | OpenApiPart]] = {200: "JobResult", 202: "JobPending"}

_PATHS: Final[OpenApiPart] = {
    "/v1/jobs": {
        "post": _operation(
            "Submit a job",
            {202: "On disk"},
            [_KEY, _CLIENT],
            "JobRequest",
            schemas={202: "JobPending"},
        ),
        "get": _operation(
            "List jobs",
            {200: "Newest first"},
            [_STATE, _OF_SERVICE, _LIMIT],
            schemas={200: rows_of("jobs")},
        ),
    },
    "/v1/jobs/bulk": {
        "post": _operation("Submit jobs", {200: "Each outcome"}, [_CLIENT], "JobRequests")
    },
    "/v1/call": {
        "post": _operation(
            "Submit and wait",
            {200: "The result", 202: "Not ended"},
            [_KEY, _CLIENT],
            "JobRequest",
            schemas=_RESULT,
        )
    },
    "/v1/call/{service}": {
        "post": _operation(
            "Call with bytes", {200: "The result"}, [_SERVICE, _KEY, *_RAW_TERMS], _BYTES, _BYTES
        )
    },
    "/v1/jobs/{job}": {
        "get": _operation(
            "The status of a job", {200: "Its status"}, [_JOB], schemas={200: "JobStatus"}
        ),
        "delete": _operation(
            "Cancel a job", {200: "Whether it was confirmed"}, [_JOB], schemas={200: "JobStatus"}
        ),
    },
    "/v1/jobs/{job}/result": {
        "get": _operation(
            "A job's result", {200: "The result", 202: "Not ended"}, [_JOB, _WAIT], schemas=_RESULT
        ),
        "delete": _operation("Forget a job's result", {200: "It is forgotten"}, [_JOB]),
    },
    "/v1/jobs/{job}/input": {
        "post": _operation("Input for a running job", {202: "Passed on"}, [_JOB], "InputAnswer")
    },
    "/v1/jobs/{job}/why": {
        "get": _operation(
            "Why a job is where it is", {200: "The reason"}, [_JOB], schemas={200: "Why"}
        )
    },
    "/v1/jobs/{job}/records": {
        "get": _operation("Every record of a job", {200: "Without bodies"}, [_JOB])
    },
    "/v1/jobs/{job}/bodies/{seq}": {
        "get": _operation("The body of a record", {200: "Its content"}, [_JOB, _SEQ])
    },
    "/v1/history/jobs": {
        "get": _operation("Search jobs", {200: "A page, newest first"}, _SEARCH),
    },
    "/v1/history/records": {
        "get": _operation("Search records", {200: "A page, newest first"}, [*_SEARCH, _KIND]),
    },
    "/v1/history/series": {
        "get": _operation("A range from the pipeline's tables", {200: "Series"}, _RANGE),
    },
    "/v1/cluster": {"get": _operation("Nodes of the cluster, and the mesh", {200: "A row each"})},
    "/v1/overview": {"get": _operation("The broker at a glance", {200: "And the last hour"})},
    "/v1/overview/live": {
        "get": _operation("The same, once a second", {200: "A stream"}, media=_SSE)
    },
    "/v1/overview/services": {
        "get": _operation("Services and the age of their queues", {200: "A row each"})
    },
    "/v1/overview/workers": {
        "get": _operation(
            "Workers, from a moment ago",
            {200: "A row each"},
            schemas={200: rows_of("workers", "WorkerRow")},
        )
    },
    "/v1/overview/bridges": {
        "get": _operation("Jobs by dialects of client and worker", {200: "A row each"})
    },
    "/v1/nodes": {"get": _operation("Compute nodes", {200: "A row each"})},
    "/v1/resources": {
        "get": _operation("Resources and their workers", {200: "A row each"}, [_OF_SERVICE])
    },
    "/v1/reports": {"get": _operation("The pipeline's reports", {200: "A row each"})},
    "/v1/reports/{name}": {
        "get": _operation("One report", {200: "HTML"}, [_REPORT], media="text/html")
    },
    "/": {"get": _operation("The dashboard", {200: "HTML"}, media="text/html")},
    "/dashboard/{name}": {
        "get": _operation("A file of the dashboard", {200: "The file"}, [_FILE], media="*/*")
    },
    "/v1/services": {
        "get": _operation(
            "Services", {200: "A row each"}, schemas={200: rows_of("services", "ServiceRow")}
        )
    },
    "/v1/schedules": {"get": _operation("Schedules, with their ticks", {200: "A row each"})},
    "/v1/dead": {
        "get": _operation(
            "Dead letters, newest first", {200: "A row each"}, [_OF_SERVICE, _FAULT, _OLDER, _LIMIT]
        )
    },
    "/v1/clients": {
        "get": _operation(
            "Clients seen lately",
            {200: "A row each"},
            schemas={200: rows_of("clients", "ClientRow")},
        )
    },
    "/v1/workers": {
        "get": _operation(
            "Workers", {200: "A row each"}, schemas={200: rows_of("workers", "WorkerRow")}
        ),
        "post": _operation(
            "Register a worker",
            {201: "Its session"},
            body="WorkerRegistration",
            schemas={201: "WorkerJoined"},
        ),
    },
    "/v1/workers/{session}": {
        "delete": _operation("Leave", {204: "Gone"}, [_SESSION], media=""),
    },
    "/v1/workers/{session}/poll": {
        "post": _operation(
            "Wait for messages", {200: "A message, or {}; a list"}, [_SESSION], "PollRequest"
        )
    },
    "/v1/workers/{session}/jobs/{job}/{attempt}": {
        "post": _operation(
            "Report on a job",
            {200: "taken, repeated, late"},
            [_SESSION, _JOB, _ATTEMPT],
            "WorkerReport",
        )
    },
    "/v1/workers/{session}/reports": {
        "post": _operation(
            "Report on several jobs", {200: "Each outcome"}, [_SESSION], "WorkerReports"
        )
    },
    "/v1/workers/{session}/events": {
        "post": _operation("Publish an event", {202: "Recorded"}, [_SESSION], "PublishRequest")
    },
    "/v1/events": {
        "get": _operation("Events", {200: "A stream"}, [_TOPIC, _AFTER, _LAST], media=_SSE)
    },
    "/v1/inbox": {
        "get": _operation("Notices about your jobs", {200: "A stream"}, [_CLIENT], media=_SSE),
    },
    "/v1/enrol": {
        "post": _operation(
            "Enrol a key with a one-time token", {201: "The principal"}, body="EnrolRequest"
        ),
    },
    "/login": {
        "get": _operation("The login form", {200: "HTML"}, media="text/html"),
        "post": _operation(
            "Log in with a token or a password", {201: "The CSRF token"}, body="LoginRequest"
        ),
    },
    "/login/{issuer}": {
        "get": _operation("Log in at an issuer", {303: "To the issuer"}, [_ISSUER], media=""),
    },
    "/login/{issuer}/callback": {
        "get": _operation("Come back from an issuer", {303: "Logged in"}, [_ISSUER], media=""),
    },
    "/session": {"get": _operation("The caller", {200: "Principal and CSRF token"})},
    "/logout": {"post": _operation("Log out", {204: "Logged out"}, media="")},
    "/healthz": {"get": _operation("The process answers", {200: "ok"})},
    "/readyz": {"get": _operation("The broker takes work", {200: "ready"})},
    "/docs": {"get": _operation("This description as a page", {200: "HTML"}, media="text/html")},
    "/metrics": {"get": _operation("Metrics", {200: "Prometheus text"}, media="text/plain")},
}

_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "code": {"type": "string", "description": "A fault code, or an HTTP problem."},
        "definite": {"type": "boolean", "description": "False: the work may have happened."},
        "job": _TEXT,
        "state": _TEXT,
    },
}

_SECURITY: Final = {
    "token": {"type": "http", "scheme": "bearer"},
    "certificate": {"type": "mutualTLS"},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": f"Of a browser. Requests that change something repeat it in {CSRF_HEADER}.",
    },
}
_DEFAULTS: Final = HttpSettings()


def describe(settings: HttpSettings = _DEFAULTS) -> OpenApiPart:
    """Return the description."""
    requests = request_schemas(_REQUESTS)
    own = {"Problem": _PROBLEM, "Wait": _span(0, settings.long_poll)}
    table = ", ".join(f"{code.value} {status}" for code, status in STATUS_OF.items())
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Dragoman",
            "version": version("dragoman"),
            "description": f"One service broker. Faults and their statuses: {table}.",
        },
        "paths": _PATHS,
        # A broker without security asks for none of them.
        "security": [{"token": []}, {"certificate": []}, {"session": []}, {}],
        "components": {
            "schemas": requests | response_schemas() | own,
            "securitySchemes": _SECURITY,
            "responses": {
                "Problem": {
                    "description": "A problem document",
                    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
            },
        },
    }


class OpenApiRoutes:
    """The routes of the description, which is made once."""

    def __init__(self, settings: HttpSettings) -> None:
        self._document = describe(settings)
        self._page = api_page(self._document)

    async def document(self, request: Request) -> Response:
        """GET /openapi.json."""
        return answer(self._document)

    async def page(self, request: Request) -> Response:
        """GET /docs: the same as a page, without scripts."""
        return HTMLResponse(self._page, headers={"Content-Security-Policy": PAGE_POLICY})
