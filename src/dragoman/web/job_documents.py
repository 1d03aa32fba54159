"""JSON documents about jobs: status, result, notice."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from dragoman.core.effects import JobStatus, PartStatus, SendReply, SendStatus
from dragoman.dialects.base import keyed_by_worker
from dragoman.dialects.http.body_codec import members
from dragoman.model.body import EMPTY, Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import FINAL
from dragoman.model.names import EVERY_SERVICE, WorkerName
from dragoman.model.target import AnyWorker, Labelled, Named, Target, parse_target
from dragoman.web.problems import of_fault
from dragoman.web.request_reading import BYTES

_JOB: Final = "Dragoman-Job"
_WORKER: Final = "Dragoman-Worker"


def answer(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def pending(job: str, document: dict[str, Any]) -> Response:
    """Return the response about a job that has not ended."""
    path = f"/v1/jobs/{quote(job, safe='')}"
    headers = {"Location": path, _JOB: quote(job, safe="")}
    return answer(document | {"location": path}, 202, headers)


def known(found: SendStatus) -> JobStatus:
    """Return the status of a job; raise the problem if the broker does not know it."""
    if found.status is None:
        raise of_fault(found.fault or Fault(FaultCode.UNKNOWN_JOB), job=found.job)
    return found.status


def is_open(found: SendStatus) -> bool:
    """Whether a job has not ended."""
    return known(found).state not in FINAL


def status_document(found: SendStatus) -> dict[str, Any]:
    """Return the status of a job as JSON."""
    status = known(found)
    document: dict[str, object] = {
        "job": found.job,
        "state": status.state,
        "service": status.service,
        "task": status.task,
        "target": status.target,
        "client": status.client,
        "submitted_at": status.submitted_at,
        "parts": [_part(part) for part in status.parts],
        **_fault(found.fault),
    }
    if status.ended_at:
        document["ended_at"] = status.ended_at
    if status.is_waiting_for_input:
        document["waiting_for_input"] = True
    if status.is_cancelling:
        document["cancelling"] = True
    return document


def _part(part: PartStatus) -> dict[str, object]:
    document: dict[str, object] = {
        "worker": part.worker,
        "state": part.state,
        "attempt": part.attempt,
        **_fault(part.fault),
    }
    return document | ({"resources": part.resources} if part.resources else {})


def _fault(fault: Fault | None) -> dict[str, object]:
    if fault is None:
        return {}
    return {"fault": {"code": fault.code, "message": fault.message}}


def notice(reply: SendReply) -> dict[str, object]:
    """Return a reply as a notice of the client's inbox."""
    document: dict[str, object] = {
        "job": reply.job,
        "kind": reply.kind,
        "service": reply.service,
        "worker": reply.worker,
        **members(reply.body),
    }
    if reply.workers:
        document["workers"] = reply.workers
    if reply.resources:
        document["resources"] = reply.resources
    if reply.state is not None:
        document["state"] = reply.state
    return document | _fault(reply.fault)


# --- results ----------------------------------------------------------------------------------


def is_for_one(target: Target, service: str) -> bool:
    """Whether a job is for one worker, so that its result is one value."""
    if isinstance(target, Named):
        return len(target.names) == 1
    return isinstance(target, AnyWorker | Labelled) and service != EVERY_SERVICE


def final_response(reply: SendReply, is_raw: bool) -> Response:
    """Return the result in a final reply; raise the problem of a refused or failed job."""
    if reply.state is None:
        raise of_fault(reply.fault or Fault(FaultCode.BAD_REQUEST), job=reply.job)
    part = PartStatus(reply.worker, reply.state, 0, reply.fault, 0, reply.body, reply.resources)
    return _single_response(reply.job, part, is_raw)


def result_response(found: SendStatus, is_raw: bool) -> Response:
    """Return the result of a job, or its status while it is open; raise its problem."""
    status = known(found)
    if status.state not in FINAL:
        return pending(found.job, status_document(found))
    if is_for_one(parse_target(status.target), status.service):
        part = status.parts[0] if status.parts else PartStatus(WorkerName(""), status.state)
        part = replace(part, state=status.state, fault=found.fault or part.fault)
        return _single_response(found.job, part, is_raw)
    results = keyed_by_worker((part.worker, _result(part)) for part in status.parts)
    if found.fault is not None:
        raise of_fault(found.fault, job=found.job, state=status.state, results=results)
    document = {"job": found.job, "state": status.state, "results": results}
    return answer(document, headers={_JOB: quote(found.job, safe="")})


def _single_response(job: str, part: PartStatus, is_raw: bool) -> Response:
    if part.fault is not None:
        raise of_fault(part.fault, job=job, state=part.state)
    body = part.body or EMPTY
    headers = {_JOB: quote(job, safe=""), _WORKER: quote(part.worker, safe="")}
    if is_raw and len(body.parts) > 1:
        return Response(body.parts[1], 200, headers, BYTES)
    document: dict[str, object] = {"job": job, "state": part.state, "worker": part.worker}
    document |= _value(body)
    if part.resources:
        document["resources"] = part.resources
    return answer(document, headers=headers)


def _result(part: PartStatus) -> dict[str, object]:
    served = {"worker": part.worker, "resources": part.resources} if part.resources else {}
    return (_fault(part.fault) or _value(part.body or EMPTY)) | served


def _value(body: Body) -> dict[str, object]:
    found = members(body)
    return {"value": found.get("value")} | ({"raw": True} if "raw" in found else {})
