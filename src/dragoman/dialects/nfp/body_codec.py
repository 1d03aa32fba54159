"""What NFP bodies mean: calls and results as JSON, NorFab's way.

A call is `task`, `args`, `kwargs`, `timeout`; a result is an object with one key, the worker's
name, whose value is NorFab's result object. JSON has no bytes, so a bytes value is written as
`{"$bytes": "<base64>"}` and read back from it. Used at the edges only: between NFP peers bodies
pass unread.
"""

from typing import Any, Final

import msgspec

from dragoman.dialects.json_values import BYTES, from_jsonable, to_jsonable
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

NAME: Final = "nfp"
#: The task of a call that was raw bytes and named none: NorFab's workers need a name to look up.
RAW_TASK: Final = "raw"
#: Faults that NorFab's result object has a status of its own for.
_TIMEOUTS: Final = frozenset(
    {FaultCode.QUEUE_TIMEOUT, FaultCode.RUN_TIMEOUT, FaultCode.JOB_TIMEOUT}
)


class NfpBodyCodec:
    """Content to NFP bodies and back."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Undress a POST body."""
        said = _read(body)
        if not isinstance(said, dict) or not isinstance(said.get("task"), str):
            raise Unmappable("an nfp call is a JSON object with a task")
        args, kwargs = said.get("args") or [], said.get("kwargs") or {}
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise Unmappable("the args of an nfp call are an array and its kwargs an object")
        if (
            said.get("raw") is True
            and args
            and isinstance(revived := from_jsonable(args[0]), bytes)
        ):
            task = "" if said["task"] == RAW_TASK else said["task"]
            return Call(task, raw=revived, headers=_headers(said), timeout=_timeout(said))
        return Call(
            said["task"],
            tuple(map(from_jsonable, args)),
            {name: from_jsonable(value) for name, value in kwargs.items()},
            headers=_headers(said),
            timeout=_timeout(said),
        )

    def write_call(self, call: Call) -> Body:
        """Dress a request as a POST body."""
        said: dict[str, Any] = {"task": call.task, "kwargs": dict(call.kwargs)}
        said["args"] = list(call.args)
        if call.raw is not None:
            said |= {"task": call.task or RAW_TASK, "args": [call.raw], "raw": True}
        if not said["task"]:
            raise Unmappable("an nfp call needs a task")
        if call.timeout is not None:
            said["timeout"] = (
                int(call.timeout) if call.timeout == int(call.timeout) else call.timeout
            )
        if call.headers:
            said["headers"] = dict(call.headers)
        return Body(NAME, (write(said),))

    def read_answer(self, body: Body) -> Answer:
        """Undress a result; what is not in NorFab's form is its own value."""
        try:
            said = _read(body)
        except Unmappable:
            return Answer(raw=b"".join(body.parts))
        if not isinstance(said, dict):
            return Answer(from_jsonable(said))
        if "input_id" in said and "value" in said:
            return Answer(from_jsonable(said["value"]))
        if isinstance(extras := said.get("extras"), dict) and "event_type" in said:
            return Answer(from_jsonable(_reported(said, extras)))
        if len(said) == 1:
            ((worker, result),) = said.items()
            if isinstance(result, dict) and "result" in result:
                return _answer(worker, result)
        return Answer(from_jsonable(said))

    def write_answer(self, answer: Answer) -> Body:
        """Dress a result as NorFab's workers do."""
        return Body(NAME, (write({answer.worker: result_object(answer)}),))


def _reported(said: dict[str, Any], extras: dict[str, Any]) -> Any:
    """Return what an event says: a question, a report of ours, or NorFab's whole event."""
    if isinstance(asked := extras.get("input_request"), dict):
        return asked.get("question")
    return extras.get("event", said)


def result_object(
    answer: Answer,
    *,
    task: str | None = None,
    job: str | None = None,
    service: str | None = None,
    started: str | None = None,
    completed: str | None = None,
) -> dict[str, Any]:
    """Make NorFab's result object; what nobody told stays null."""
    fault = answer.fault
    result = answer.value if answer.raw is None else to_jsonable(answer.raw) | {"raw": True}
    return {
        "result": None if fault else result,
        "failed": fault is not None,
        "errors": [fault.message or fault.code.value] if fault else [],
        "task": task,
        "messages": [],
        "juuid": job,
        "resources": list(answer.resources),
        "resources_failed": list(answer.resources) if fault else [],
        "status": _status(fault),
        "task_started": started,
        "task_completed": completed,
        "service": service,
        "diff": None,
        "dry_run": False,
    }


def _status(fault: Fault | None) -> str:
    if fault is None:
        return "completed"
    return "timeout" if fault.code in _TIMEOUTS else "error"


def _answer(worker: str, result: dict[str, Any]) -> Answer:
    names = result.get("resources")
    resources = tuple(map(str, names)) if isinstance(names, list) else ()
    if result.get("failed"):
        fault = task_fault(result.get("errors"), result.get("messages"))
        return Answer(fault=fault, worker=worker, resources=resources)
    said = result["result"]
    if isinstance(said, dict) and set(said) == {BYTES, "raw"}:
        raw = from_jsonable({BYTES: said[BYTES]})
        if isinstance(raw, bytes):
            return Answer(raw=raw, worker=worker, resources=resources)
    return Answer(from_jsonable(said), worker=worker, resources=resources)


def task_fault(errors: Any, messages: Any = None) -> Fault:
    """Say why a task failed, in its own words."""
    for said in (errors, messages):
        if isinstance(said, list) and said:
            return Fault(FaultCode.TASK_FAILED, "; ".join(map(str, said)))
    return Fault(FaultCode.TASK_FAILED, "the task failed and did not say why")


def _headers(said: dict[str, Any]) -> dict[str, str]:
    headers = said.get("headers")
    return {k: str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}


def _timeout(said: dict[str, Any]) -> float | None:
    timeout = said.get("timeout")
    return float(timeout) if isinstance(timeout, int | float) and timeout > 0 else None


def _read(body: Body) -> Any:
    try:
        return msgspec.json.decode(b"".join(body.parts))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise Unmappable(f"an nfp body is JSON: {why}") from None


def write(said: Any) -> bytes:
    """Write JSON, compact, with bytes in their own form. Raises `Unmappable`."""
    try:
        return msgspec.json.encode(to_jsonable(said))
    except (Unmappable, TypeError, ValueError, OverflowError, RecursionError) as why:
        raise Unmappable(f"no JSON form for nfp: {why}") from None
