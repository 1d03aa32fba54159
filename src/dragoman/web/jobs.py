"""Jobs over HTTP: submit, call, status, result, cancel, input."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dragoman.dialects.base import keyed_by_worker
from dragoman.dialects.http import wire
from dragoman.dialects.http.body_codec import HttpBodyCodec, code_of, question, spread
from dragoman.model.content import Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import FINAL
from dragoman.model.names import EVERY_SERVICE
from dragoman.model.target import AnyWorker, Labelled, Named, parse_target
from dragoman.web.client_channels import ClientChannel, ClientChannels, Standing
from dragoman.web.problems import Problem, of_fault
from dragoman.web.request_reading import (
    BYTES,
    ClientDisconnected,
    checked_name,
    client_name,
    media_type,
    number,
    read_bytes,
    read_json,
    require_json,
    unless_disconnected,
)
from dragoman.web.settings import WebSettings

#: A caller that left before its answer; nobody reads it.
CLIENT_CLOSED_REQUEST: Final = 499
#: How much longer than its job a call waits, so that the broker's own verdict can arrive.
MARGIN: Final = 5.0
_DRESS: Final = HttpBodyCodec()
_JOB: Final = "Dragoman-Job"
_WORKER: Final = "Dragoman-Worker"

Seconds = Annotated[float, msgspec.Meta(gt=0, le=31_536_000)]


class JobRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What a client asks for."""

    service: str
    task: str = ""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    target: str = "any"
    timeout: Seconds | None = None
    priority: Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)] = 0
    key: str = ""
    #: The job's id, for clients that choose it themselves; the same id again is the same job.
    job: str = ""
    headers: dict[str, str] = {}
    #: What becomes of a call whose caller leaves: it goes on, or is cancelled.
    on_disconnect: str = "continue"


class InputAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """Input for a running job."""

    value: Any = None
    request: str = ""
    worker: str = ""


class JobRoutes:
    """The routes about jobs."""

    def __init__(
        self, lines: ClientChannels, settings: WebSettings, new_id: Callable[[], str]
    ) -> None:
        self._lines = lines
        self._settings = settings
        self._new_id = new_id

    # --- asking for work ----------------------------------------------------------------------

    async def submit(self, request: Request) -> Response:
        """POST /v1/jobs: take a job in, durably."""
        wanted, parts = await self._read(request)
        line = self._lines.of(client_name(request))
        await line.deliver(_submission(line, wanted), parts)
        return _pending(wanted.job, {"job": wanted.job, "state": "queued"})

    async def call(self, request: Request) -> Response:
        """POST /v1/call: submit, and wait for the result."""
        wanted, parts = await self._read(request)
        return await self._call(request, wanted, parts, is_raw=False)

    async def call_raw(self, request: Request) -> Response:
        """POST /v1/call/{service}: the same with bytes in and out."""
        if media_type(request.headers) != BYTES:
            words = f"send the body as {BYTES}, or JSON to /v1/call"
            raise Problem(415, words, headers={"Accept-Post": BYTES})
        wanted, parts = await self._read_raw(request)
        return await self._call(request, wanted, parts, is_raw=True)

    async def _read_raw(self, request: Request) -> tuple[JobRequest, tuple[bytes, ...]]:
        """Read a call that is bytes altogether; the query says the rest."""
        query = {**request.query_params, **request.path_params}
        try:
            wanted = msgspec.convert(query, JobRequest, strict=False)
        except msgspec.ValidationError as error:
            raise Problem(400, f"the query does not fit: {error}") from None
        raw = await read_bytes(request, self._settings.max_body, self._settings.body_timeout)
        self._complete(request, wanted)
        call = Call(wanted.task, raw=raw, timeout=wanted.timeout)
        return wanted, _DRESS.write_call(call).parts

    async def _read(self, request: Request) -> tuple[JobRequest, tuple[bytes, ...]]:
        if media_type(request.headers) == BYTES:
            return await self._read_raw(request)
        require_json(request.headers)
        settings = self._settings
        raw = await read_bytes(request, settings.max_body, settings.body_timeout)
        wanted = read_json(raw, JobRequest)
        self._complete(request, wanted)
        call = Call(
            wanted.task, tuple(wanted.args), wanted.kwargs, None, wanted.headers, wanted.timeout
        )
        try:
            return wanted, _DRESS.write_call(call).parts
        except Unmappable as why:
            raise Problem(400, str(why)) from None

    def _complete(self, request: Request, wanted: JobRequest) -> None:
        """Check names and fill in what headers say and what is to be made up."""
        checked_name(wanted.service, "a service")
        wanted.key = wanted.key or request.headers.get("Idempotency-Key", "")
        wanted.job = wanted.job or self._new_id()
        for name, what in ((wanted.job, "a job id"), (wanted.key or "-", "a key")):
            checked_name(name, what)
        if wanted.on_disconnect not in ("continue", "cancel"):
            raise Problem(400, "on_disconnect is `continue` or `cancel`")
        try:
            parse_target(wanted.target)
        except ValueError as why:
            raise Problem(400, str(why)) from None

    async def _call(
        self, request: Request, wanted: JobRequest, parts: tuple[bytes, ...], is_raw: bool
    ) -> Response:
        line = self._lines.of(client_name(request))
        try:
            found = await unless_disconnected(request, self._run(line, wanted, parts))
        except ClientDisconnected:
            if wanted.on_disconnect == "cancel":
                line.say(wire.Cancel(wanted.job))
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return _result(found, wanted.job, is_raw)

    async def _run(
        self, line: ClientChannel, wanted: JobRequest, parts: tuple[bytes, ...]
    ) -> Standing:
        """Submit and wait for the end. The watch begins before the job does."""
        timeout = wanted.timeout or self._settings.timeout
        with self._lines.watching(wanted.job) as ended:
            await line.deliver(_submission(line, wanted), parts)
            found = await line.ask(wire.Ask(wanted.job))
            if not _is_open(found):
                return found
            if found[0].known_as != wanted.job:
                return await self._wait(line, wanted.job, found, timeout + MARGIN)
            await self._lines.ended(ended, timeout + MARGIN)
            return await line.ask(wire.Ask(wanted.job))

    # --- asking about work --------------------------------------------------------------------

    async def status(self, request: Request) -> Response:
        """GET /v1/jobs/{job}: how it stands, without its result."""
        standing, _ = _known(await self._ask(request))
        return answer(_standing(standing))

    async def result(self, request: Request) -> Response:
        """GET /v1/jobs/{job}/result: the result, waited for if asked."""
        settings = self._settings
        wait = number(request, "wait", 0.0, 0.0, settings.long_poll)
        job = request.path_params["job"]
        line = self._lines.of(client_name(request))
        found = _known(await self._ask(request))
        if wait and _is_open(found):
            try:
                found = await unless_disconnected(request, self._wait(line, job, found, wait))
            except ClientDisconnected:
                return Response(status_code=CLIENT_CLOSED_REQUEST)
        return _result(found, job, media_type_wanted(request) == BYTES)

    async def _ask(self, request: Request) -> Standing:
        line = self._lines.of(client_name(request))
        return await line.ask(wire.Ask(request.path_params["job"]))

    async def _wait(self, line: ClientChannel, job: str, found: Standing, wait: float) -> Standing:
        """Wait for a job to end, asking again as soon as the ledger says so."""
        with self._lines.watching(found[0].known_as) as ended:
            # It may have ended before the watch began.
            found = await line.ask(wire.Ask(job))
            if _is_open(found):
                await self._lines.ended(ended, wait)
                found = await line.ask(wire.Ask(job))
        return found

    async def cancel(self, request: Request) -> Response:
        """DELETE /v1/jobs/{job}: stop it; says whether its worker confirmed."""
        job = request.path_params["job"]
        line = self._lines.of(client_name(request))
        standing, _ = _known(await line.ask(wire.Cancel(job)))
        said = _standing(standing)
        said["cancelled"] = standing.state == "cancelled"
        said["confirmed"] = said["cancelled"] and standing.fault == FaultCode.CANCELLED
        return answer(said)

    async def give_input(self, request: Request) -> Response:
        """POST /v1/jobs/{job}/input: say something to a running job."""
        require_json(request.headers)
        settings = self._settings
        raw = await read_bytes(request, settings.max_body, settings.body_timeout)
        words = read_json(raw, InputAnswer)
        line = self._lines.of(client_name(request))
        job = request.path_params["job"]
        said = wire.Input(line.new_request(), job, words.worker)
        await line.deliver(said, question(words.request, words.value).parts)
        return answer({"job": job, "given": True}, 202)


def _submission(line: ClientChannel, wanted: JobRequest) -> wire.Submit:
    return wire.Submit(
        line.new_request(),
        wanted.job,
        wanted.service,
        wanted.task,
        wanted.target,
        wanted.timeout,
        wanted.priority,
        wanted.key,
    )


def media_type_wanted(request: Request) -> str:
    """Return the first kind of answer a caller accepts."""
    accepted = request.headers.get("accept", "").partition(",")[0]
    return accepted.partition(";")[0].strip().lower()


def answer(said: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with JSON."""
    body = msgspec.json.encode(said)
    return Response(body, status, headers, "application/json")


def _pending(job: str, said: dict[str, Any]) -> Response:
    place = f"/v1/jobs/{quote(job, safe='')}"
    headers = {"Location": place, _JOB: quote(job, safe="")}
    return answer(said | {"location": place}, 202, headers)


def _known(found: Standing) -> Standing:
    standing = found[0]
    if not standing.known_as:
        fault = Fault(code_of(standing.fault or "unknown_job"), standing.words)
        raise of_fault(fault, job=standing.job)
    return found


def _is_open(found: Standing) -> bool:
    return found[0].state not in FINAL


def _standing(standing: wire.Standing) -> dict[str, Any]:
    """Write how a job stands."""
    said: dict[str, Any] = {
        "job": standing.job,
        "state": standing.state,
        "service": standing.service,
        "task": standing.task,
        "target": standing.target,
        "client": standing.client,
        "submitted_at": standing.submitted_at,
        "parts": [
            {"worker": s.worker, "state": s.state, "attempt": s.attempt}
            | _fault(s.fault, s.words)
            | ({"resources": s.resources} if s.resources else {})
            for s in standing.shares
        ],
        **_fault(standing.fault, standing.words),
    }
    if standing.ended_at:
        said["ended_at"] = standing.ended_at
    if standing.is_waiting_for_input:
        said["waiting_for_input"] = True
    if standing.is_cancelling:
        said["cancelling"] = True
    return said


def _fault(code: str, words: str) -> dict[str, Any]:
    return {"fault": {"code": code, "message": words}} if code else {}


def is_for_one(standing: wire.Standing) -> bool:
    """Tell whether a job was for one worker, so that its result is one value."""
    target = parse_target(standing.target)
    if isinstance(target, Named):
        return len(target.names) == 1
    return isinstance(target, AnyWorker | Labelled) and standing.service != EVERY_SERVICE


def _result(found: Standing, job: str, is_raw: bool) -> Response:
    """Answer with a result, a problem, or how far it is."""
    standing, frames = _known(found)
    if standing.state not in FINAL:
        return _pending(job, _standing(standing))
    results = _results(standing, frames)
    if standing.fault:
        fault = Fault(code_of(standing.fault), standing.words)
        told = {} if is_for_one(standing) else {"results": results}
        raise of_fault(fault, job=job, state=standing.state, **told)
    said: dict[str, Any] = {"job": job, "state": standing.state}
    headers = {_JOB: quote(job, safe="")}
    if not is_for_one(standing):
        return answer(said | {"results": results}, headers=headers)
    share = standing.shares[0] if standing.shares else wire.Share("", standing.state)
    if share.fault:
        # The job succeeded; its result has no form here.
        raise of_fault(Fault(code_of(share.fault), share.words), job=job, state=standing.state)
    headers[_WORKER] = quote(share.worker, safe="")
    if is_raw and share.frames > 1:
        return Response(frames[1], 200, headers, BYTES)
    result = next(iter(results.values()), {})
    return answer(said | {"worker": share.worker, "value": None} | result, headers=headers)


def _results(standing: wire.Standing, frames: tuple[bytes, ...]) -> dict[str, dict[str, Any]]:
    """Return what each worker said, by its name."""
    results: list[tuple[str, dict[str, Any]]] = []
    at = 0
    for share in standing.shares:
        said = spread(frames[at : at + share.frames])
        at += share.frames
        found = {"value": said.get("value")} | ({"raw": True} if "raw" in said else {})
        whose = {"worker": share.worker, "resources": share.resources}
        served = whose if share.resources else {}
        results.append((share.worker, (_fault(share.fault, share.words) or found) | served))
    return keyed_by_worker(results)
