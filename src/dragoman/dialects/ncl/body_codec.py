"""How content is dressed for NCL: a call is an engine's `Params`, a result a `RunResult`.

A request body has one part, the JSON of `Params`. A result body has one part, the JSON of a
`RunResult`. Its `PublishResult` of type `dragoman` holds the value. The command output repeats the
value for people, truncated as upstream does. Results of other nodes are read from their command
output.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dragoman.dialects.base import MalformedMessage, raw_as_argument
from dragoman.dialects.json_values import from_jsonable, to_jsonable
from dragoman.dialects.ncl.envelope import BAD_JSON, dump
from dragoman.dialects.ncl.messages import RunResult
from dragoman.dialects.ncl.models import CommandResult, SpecConfig
from dragoman.dialects.ncl.wire import read_payload
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

NAME: Final = "ncl"
#: The publisher type that marks the value of a Dragoman result.
PUBLISHER: Final = "dragoman"
#: Upstream truncates each output stream at this many bytes.
OUTPUT_LIMIT: Final = 2048

_CALL_KEYS: Final = frozenset({"task", "args", "kwargs", "headers", "timeout"})


class NclBodyCodec:
    """Content <-> NCL bodies."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Undress a request."""
        return call_of(_params(body))

    def write_call(self, call: Call) -> Body:
        """Dress a request."""
        return Body(NAME, (dump(params_of(call)),))

    def read_answer(self, body: Body) -> Answer:
        """Undress a `RunResult`."""
        try:
            result = read_payload(RunResult, body.parts[0])
        except (MalformedMessage, IndexError) as error:
            raise Unmappable(f"not an NCL result body: {error}") from None
        return answer_of(result)

    def write_answer(self, answer: Answer) -> Body:
        """Dress a result."""
        return Body(NAME, (dump(result_of(answer)),))


def _params(body: Body) -> dict[str, object]:
    try:
        return msgspec.json.decode(body.parts[0], type=dict[str, object])
    except (*BAD_JSON, IndexError) as error:
        raise Unmappable(f"not an NCL request body: {error}") from None


def params_of(call: Call) -> dict[str, object]:
    """Write a call as engine parameters.

    The keyword arguments of a call without task, positional arguments and headers become the
    parameters themselves. A client of any dialect uses a real engine (`docker`) this way.
    """
    call = raw_as_argument(call)
    if call.raw is not None:
        return {"raw": b64encode(call.raw).decode()}
    kwargs = to_jsonable(dict(call.kwargs))
    is_spec = kwargs and not (call.task or call.args or call.headers)
    if is_spec and _CALL_KEYS.isdisjoint(kwargs) and "raw" not in kwargs:
        return dict(kwargs)
    params = {"task": call.task, "args": to_jsonable(list(call.args)), "kwargs": kwargs}
    if call.headers:
        params["headers"] = dict(call.headers)
    if call.timeout is not None:
        params["timeout"] = call.timeout
    return params


def call_of(params: Mapping[str, object]) -> Call:
    """Read engine parameters as a call."""
    if set(params) == {"raw"} and isinstance(params["raw"], str):
        return Call(raw=_from_base64(params["raw"]))
    if "task" not in params or not _CALL_KEYS.issuperset(params):
        return Call(kwargs=from_jsonable(dict(params)))
    try:
        return msgspec.convert(params, _NclCall).call()
    except msgspec.ValidationError as error:
        raise Unmappable(f"not an NCL call: {error}") from None


class _NclCall(msgspec.Struct):
    task: str
    args: list[object] = []
    kwargs: dict[str, object] = {}
    headers: dict[str, str] = {}
    timeout: float | None = None

    def call(self) -> Call:
        args, kwargs = tuple(map(from_jsonable, self.args)), from_jsonable(self.kwargs)
        return Call(self.task, args, kwargs, None, self.headers, self.timeout)


class Printed:
    """The beginning of what a task printed, by stream."""

    __slots__ = ("stderr", "stdout")

    def __init__(self) -> None:
        self.stdout = self.stderr = b""

    def add(self, text: str, is_error: bool) -> None:
        """Add text; what exceeds the limit by far is dropped."""
        data = text.encode(errors="replace")[: OUTPUT_LIMIT + 1]
        if is_error:
            self.stderr = (self.stderr + data)[: OUTPUT_LIMIT + 1]
        else:
            self.stdout = (self.stdout + data)[: OUTPUT_LIMIT + 1]


def result_of(answer: Answer, printed: Printed | None = None) -> RunResult:
    """Write an answer as a result. The caller fills in execution and job."""
    printed = printed or Printed()
    if answer.fault is not None:
        fault = answer.fault
        params: dict[str, object] = {"fault": fault.code.value, "message": fault.message}
        output = CommandResult(ExitCode=1, ErrorMsg=fault.message or fault.code.value)
    elif answer.raw is not None:
        params = {"raw": b64encode(answer.raw).decode()}
        output = _output(printed, answer.raw)
    else:
        params = {"value": to_jsonable(answer.value)}
        text = _utf8(answer.value) if isinstance(answer.value, str) else dump(params["value"])
        is_shown = answer.value is not None or not printed.stdout
        output = _output(printed, text if is_shown else b"")
    return RunResult(PublishResult=SpecConfig(PUBLISHER, params), RunCommandResult=output)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Unmappable("text with a lone surrogate has no form in JSON") from None


def _output(printed: Printed, value: bytes) -> CommandResult:
    """Write what the task printed, then its value, each stream truncated."""
    stdout, stderr = printed.stdout + value, printed.stderr
    return CommandResult(
        Stdout=stdout[:OUTPUT_LIMIT].decode(errors="replace"),
        StdoutTruncated=len(stdout) > OUTPUT_LIMIT,
        stderr=stderr[:OUTPUT_LIMIT].decode(errors="replace"),
        StderrTruncated=len(stderr) > OUTPUT_LIMIT,
    )


def answer_of(result: RunResult) -> Answer:
    """Read a result: a Dragoman one by its published value, others by their command output."""
    published = result.PublishResult
    if published is not None and published.Type == PUBLISHER and published.Params is not None:
        return _published(published.Params)
    output = result.RunCommandResult or CommandResult()
    if output.ExitCode != 0:
        message = output.ErrorMsg or output.stderr.strip() or f"exit code {output.ExitCode}"
        return Answer(fault=Fault(FaultCode.TASK_FAILED, message))
    return Answer(value=_command_output(output, published))


def _published(params: Mapping[str, object]) -> Answer:
    if "fault" in params:
        return Answer(fault=Fault(_fault_code(params["fault"]), str(params.get("message", ""))))
    if "raw" in params:
        return Answer(raw=_from_base64(str(params["raw"])))
    return Answer(value=from_jsonable(params.get("value")))


def _fault_code(text: Any) -> FaultCode:
    try:
        return FaultCode(text)
    except ValueError:
        return FaultCode.TASK_FAILED


def _command_output(output: CommandResult, published: SpecConfig | None) -> dict[str, object]:
    output_value: dict[str, object] = {
        "stdout": output.Stdout,
        "stderr": output.stderr,
        "exit_code": output.ExitCode,
        "truncated": output.StdoutTruncated or output.StderrTruncated,
    }
    if published is not None and published.Type:
        output_value["published"] = {"type": published.Type, "params": published.Params or {}}
    return output_value


def _from_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise Unmappable(f"raw content is not base64: {error}") from None
