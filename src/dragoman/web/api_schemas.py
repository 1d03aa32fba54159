"""JSON schemas of the API: requests and rows from their types, documents of jobs by hand."""

from typing import Any, Final, TypeAlias

import msgspec

from dragoman.core.view import ClientRow, ServiceRow, WorkerRow
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.model.retry import LONGEST_WAIT, MOST_RETRIES
from dragoman.model.unique import UNTIL

#: A part of the OpenAPI document, as JSON values.
OpenApiPart: TypeAlias = dict[str, Any]
REFERENCE: Final = "#/components/schemas/{name}"
_TEXT: Final = {"type": "string"}
_SECONDS: Final = {"type": "number"}
_STATE: Final = {"type": "string", "enum": [state.value for state in JobState]}
_FAULT: Final = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {
        "code": {"type": "string", "enum": [code.value for code in FaultCode]},
        "message": _TEXT,
    },
}
_PART: Final = {
    "type": "object",
    "required": ["worker", "state", "attempt"],
    "properties": {
        "worker": _TEXT,
        "state": _STATE,
        "attempt": {"type": "integer"},
        "fault": _FAULT,
        "resources": {"type": "array", "items": _TEXT},
    },
}
_JOB_STATUS: Final = {
    "type": "object",
    "required": ["job", "state", "service", "task", "target", "client", "submitted_at", "parts"],
    "properties": {
        **dict.fromkeys(("job", "service", "task", "target", "client"), _TEXT),
        "state": _STATE,
        "submitted_at": _SECONDS,
        "ended_at": _SECONDS,
        "parts": {"type": "array", "items": _PART},
        "fault": _FAULT,
        "waiting_for_input": {"type": "boolean"},
        "cancelling": {"type": "boolean"},
    },
}
_JOB_PENDING: Final = {
    "type": "object",
    "required": ["job", "state", "location"],
    "properties": {"job": _TEXT, "state": _STATE, "location": _TEXT},
}
_JOB_RESULT: Final = {
    "type": "object",
    "description": "One worker's value, or one result for each worker.",
    "required": ["job", "state"],
    "anyOf": [{"required": ["worker", "value"]}, {"required": ["results"]}],
    "properties": {
        **dict.fromkeys(("job", "worker"), _TEXT),
        "state": _STATE,
        "value": {},
        "raw": {"type": "boolean", "description": "Whether the value is bytes in base64."},
        "results": {"type": "object"},
        "resources": {"type": "array", "items": _TEXT},
    },
}
_WHY: Final = {"type": "object", "required": ["job", "reason"]}
_WORKER_JOINED: Final = {
    "type": "object",
    "required": ["session", "name", "beat_every", "lease", "longest_wait"],
    "properties": {
        **dict.fromkeys(("session", "name"), _TEXT),
        **dict.fromkeys(("beat_every", "lease", "longest_wait"), _SECONDS),
    },
}


_RETRIES: Final = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": MOST_RETRIES},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "times": {"type": "integer", "minimum": 0, "maximum": MOST_RETRIES},
                "backoff": {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT},
                "factor": {"type": "number", "minimum": 1, "maximum": 100},
                "longest": {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT},
                "jitter": {"type": "number", "minimum": 0, "maximum": 1},
                "on": {"type": "array", "items": {"type": "string"}, "maxItems": 64},
            },
        },
        {"type": "null"},
    ],
    "default": None,
}
_DAY: Final = 86_400
_LIMIT_KEY: Final = {"type": "string", "pattern": "^[ -~]{1,200}$"}
_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": 1_000_000}
_SHARED_LIMIT: Final = {
    "anyOf": [
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["key"],
            "anyOf": [
                {"required": ["concurrency"], "properties": {"concurrency": {"minimum": 1}}},
                {"required": ["rate"], "properties": {"rate": {"exclusiveMinimum": 0}}},
            ],
            "properties": {
                "key": _LIMIT_KEY,
                "concurrency": _COUNT,
                "rate": {"type": "number", "minimum": 0, "maximum": 1_000_000},
                "per": {"type": "number", "minimum": 0.001, "maximum": _DAY},
                "burst": _COUNT,
            },
        },
        {"type": "null"},
    ],
    "default": None,
}
_UNIQUE: Final = {
    "anyOf": [
        {"type": "string", "pattern": "^[ -z|}~]{1,200}$"},
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["key"],
            "properties": {
                "key": _LIMIT_KEY,
                "until": {"type": "string", "enum": list(UNTIL)},
                "period": {"type": "number", "minimum": 0, "maximum": _DAY},
                "quiet": {"type": "number", "minimum": 0, "maximum": _DAY},
            },
            # One of them may be set, not both.
            "anyOf": [
                {"properties": {"period": {"const": 0}}},
                {"properties": {"quiet": {"const": 0}}},
            ],
        },
        {"type": "null"},
    ],
    "default": None,
}
#: Members of a submission whose types cannot say all of it.
_OPTIONS: Final = {"retries": _RETRIES, "limit": _SHARED_LIMIT, "unique": _UNIQUE}
#: A report of the kind `forward` names its service.
_FORWARD: Final = {
    "if": {"required": ["kind"], "properties": {"kind": {"const": "forward"}}},
    "then": {"required": ["service"], "properties": {"service": {"minLength": 1}}},
}


def request_schemas(requests: tuple[type, ...]) -> OpenApiPart:
    """Return the schemas by name. Types cannot say all of it."""
    _, found = msgspec.json.schema_components(requests, ref_template=REFERENCE)
    found["JobRequest"]["properties"] |= _OPTIONS
    found["WorkerReport"] |= _FORWARD
    return found


def response_schemas() -> OpenApiPart:
    """Return the schemas by name."""
    _, rows = msgspec.json.schema_components(
        (ServiceRow, WorkerRow, ClientRow), ref_template=REFERENCE
    )
    return {
        **rows,
        "JobStatus": _JOB_STATUS,
        "JobPending": _JOB_PENDING,
        "JobResult": _JOB_RESULT,
        "Why": _WHY,
        "WorkerJoined": _WORKER_JOINED,
    }


def rows_of(member: str, row: str = "") -> OpenApiPart:
    """Return the schema of a list of rows in a member of a document."""
    items = {"$ref": REFERENCE.format(name=row)} if row else {"type": "object"}
    rows = {"type": "array", "items": items}
    return {"type": "object", "required": [member], "properties": {member: rows}}
