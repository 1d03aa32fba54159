"""The content of NFP bodies: calls and results as JSON, in NorFab's form.

A call is `task`, `args`, `kwargs`, `timeout`; a result is an object with one key, the worker's
name, whose value is NorFab's result object. JSON has no bytes, so a bytes value is written as
`{"$bytes": "<base64>"}` and read back from it. Bodies between two NFP peers are not decoded.
"""

from typing import Any, Final

import msgspec

from dragoman.dialects.json_values import BYTES, from_jsonable, to_jsonable
from dragoman.dialects.nfp.contents import OK, Content, error_text, split_answer
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

NAME: Final = "nfp"
#: The task of a raw call without a task: NorFab's workers look tasks up by name.
RAW_TASK: Final = "raw"
#: Faults with the status `timeout` in NorFab's result object.
_TIMEOUTS: Final = frozenset(
    {FaultCode.QUEUE_TIMEOUT, FaultCode.RUN_TIMEOUT, FaultCode.JOB_TIMEOUT}
)


class NfpBodyCodec:
    """Converts content to NFP bodies and back."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Decode a POST body. One that is not NorFab's call is a raw request."""
        if len(body.parts) > 1:
            raise Unmappable(f"the nfp request has {len(body.parts)} body frames; others have one")
        content = _read_or_none(body.parts)
        if not isinstance(content, dict) or not isinstance(content.get("task"), str):
            return Call(raw=b"".join(body.parts))
        args, kwargs = content.get("args") or [], content.get("kwargs") or {}
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise Unmappable("the args of an nfp call are an array and its kwargs an object")
        if (
            content.get("raw") is True
            and args
            and isinstance(revived := from_jsonable(args[0]), bytes)
        ):
            task = "" if content["task"] == RAW_TASK else content["task"]
            return Call(task, raw=revived, headers=_headers(content), timeout=_timeout(content))
        return Call(
            content["task"],
            tuple(map(from_jsonable, args)),
            {name: from_jsonable(value) for name, value in kwargs.items()},
            headers=_headers(content),
            timeout=_timeout(content),
        )

    def write_call(self, call: Call) -> Body:
        """Encode a request as a POST body."""
        content: dict[str, object] = {"task": call.task, "kwargs": dict(call.kwargs)}
        content["args"] = list(call.args)
        if call.raw is not None:
            content |= {"task": call.task or RAW_TASK, "args": [call.raw], "raw": True}
        if not content["task"]:
            raise Unmappable("an nfp call needs a task")
        if call.timeout is not None:
            content["timeout"] = (
                int(call.timeout) if call.timeout == int(call.timeout) else call.timeout
            )
        if call.headers:
            content["headers"] = dict(call.headers)
        return Body(NAME, (write(content),))

    def read_answer(self, body: Body) -> Answer:
        """Decode a result. A body that is not in NorFab's form is itself the value."""
        frames, status = split_answer(body.parts)
        if status != OK:
            return Answer(fault=status_fault(status, frames))
        if len(frames) > 1:
            return Answer([_value_or_bytes(frame) for frame in frames])
        try:
            content = _read(frames)
        except Unmappable:
            return Answer(raw=b"".join(frames)) if any(frames) else Answer()
        if not isinstance(content, dict):
            return Answer(from_jsonable(content))
        if "input_id" in content and "value" in content:
            return Answer(from_jsonable(content["value"]))
        if isinstance(extras := content.get("extras"), dict) and "event_type" in content:
            return Answer(from_jsonable(_reported(content, extras)))
        if len(content) == 1:
            ((worker, result),) = content.items()
            if isinstance(result, dict) and "result" in result:
                return read_result(worker, result)
        return Answer(from_jsonable(content))

    def write_answer(self, answer: Answer) -> Body:
        """Encode a result as NorFab's workers do."""
        return Body(NAME, (write({answer.worker: result_object(answer)}),))


def _reported(content: dict[str, object], extras: dict[str, object]) -> object:
    """Return the content of an event: a question, our own report, or NorFab's whole event."""
    if isinstance(asked := extras.get("input_request"), dict):
        return asked.get("question")
    return extras.get("event", content)


def result_object(
    answer: Answer,
    *,
    task: str | None = None,
    job: str | None = None,
    service: str | None = None,
    started: str | None = None,
    completed: str | None = None,
) -> dict[str, object]:
    """Make NorFab's result object. Unknown fields are null."""
    fault = answer.fault
    result = answer.value
    if answer.raw is not None:
        result = {BYTES: to_jsonable(answer.raw)[BYTES], "raw": True}
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


def read_result(worker: str, result: dict[str, object]) -> Answer:
    """Return the answer in a worker's result object."""
    names = result.get("resources")
    resources = tuple(map(str, names)) if isinstance(names, list) else ()
    if result.get("failed"):
        fault = task_fault(result.get("errors"), result.get("messages"))
        return Answer(fault=fault, worker=worker, resources=resources)
    value = result["result"]
    if isinstance(value, dict) and set(value) == {BYTES, "raw"}:
        raw = from_jsonable({BYTES: value[BYTES]})
        if isinstance(raw, bytes):
            return Answer(raw=raw, worker=worker, resources=resources)
    return Answer(from_jsonable(value), worker=worker, resources=resources)


def task_fault(errors: object, messages: object = None) -> Fault:
    """Return the fault of a failed task, with the task's own error texts."""
    for texts in (errors, messages):
        if isinstance(texts, list) and texts:
            return Fault(FaultCode.TASK_FAILED, "; ".join(map(str, texts)))
    return Fault(FaultCode.TASK_FAILED, "the task failed without an error text")


def _headers(content: dict[str, object]) -> dict[str, str]:
    headers = content.get("headers")
    return {k: str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}


def _timeout(content: dict[str, object]) -> float | None:
    timeout = content.get("timeout")
    return float(timeout) if isinstance(timeout, int | float) and timeout > 0 else None


def status_fault(status: bytes, content: Content) -> Fault:
    """Return the fault of a worker's failing status, with the text of its body."""
    said = _read_or_none(content)
    text = (said.get("error") or said.get("status")) if isinstance(said, dict) else None
    if isinstance(said, dict) and not text and isinstance(errors := said.get("errors"), list):
        text = "; ".join(map(str, errors))
    code = FaultCode.BAD_REQUEST if status == b"400" else FaultCode.TASK_FAILED
    return Fault(code, str(text) if text else error_text(content, status))


def _value_or_bytes(frame: bytes) -> object:
    try:
        return from_jsonable(_read((frame,)))
    except Unmappable:
        return frame


def _read_or_none(frames: Content) -> object:
    try:
        return _read(frames)
    except Unmappable:
        return None


def _read(frames: Content) -> Any:
    try:
        return msgspec.json.decode(b"".join(frames))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unmappable(f"an nfp body is JSON: {error}") from None


def write(content: object) -> bytes:
    """Encode compact JSON, with bytes as `$bytes` objects. Raises `Unmappable`."""
    try:
        return msgspec.json.encode(to_jsonable(content))
    except (Unmappable, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unmappable(f"no JSON form for nfp: {error}") from None
