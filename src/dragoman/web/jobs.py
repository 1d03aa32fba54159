"""Jobs over HTTP: submit, call, status, result, cancel, input."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Annotated, Any, Final, Literal, TypedDict

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dragoman.core.effects import SendReply, SendStatus
from dragoman.core.events import InputReceived, JobCancelled, JobSubmitted, ResultRequested
from dragoman.dialects.http.body_codec import json_call, question
from dragoman.dialects.http.settings import HttpSettings
from dragoman.model.content import Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.job_options import LONGEST_DELAY, OPTIONS, apply_options
from dragoman.model.names import JobId, ServiceName, WorkerName
from dragoman.model.parent import LAST_POSITION
from dragoman.model.target import Target, parse_target
from dragoman.model.terms import Terms
from dragoman.model.trace import HEADER
from dragoman.model.webhook import JOB_HOOK, LONGEST_URL
from dragoman.web.client_channels import ClientChannel, ClientChannels
from dragoman.web.job_documents import (
    answer,
    final_response,
    is_for_one,
    is_open,
    known,
    pending,
    result_response,
    status_document,
)
from dragoman.web.problems import Problem, of_fault
from dragoman.web.request_reading import (
    BYTES,
    ClientDisconnected,
    PrintableName,
    PrintableText,
    checked_name,
    client_name,
    failing_on_disconnect,
    idempotency_key,
    media_type,
    number,
    read_bytes,
    read_json,
    require_json,
)

#: How much longer than its job a call waits, so that the broker's own timeout arrives.
MARGIN: Final = 5.0

#: Seconds that the broker may take to forget a result.
_PATIENCE: Final = 15.0
#: The service of the broker itself.
MANAGEMENT: Final = "mmi.service.broker"

#: Most submissions in one list.
MOST_JOBS: Final = 1000

Seconds = Annotated[float, msgspec.Meta(gt=0, le=31_536_000)]
Limit = Annotated[float, msgspec.Meta(ge=0.001, le=31_536_000)]


class ParentRequest(TypedDict):
    """The parent of a job, and the job's position among the parent's children."""

    job: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    position: Annotated[int, msgspec.Meta(ge=1, le=LAST_POSITION)]


class JobRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A submission."""

    service: PrintableName
    task: str = ""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    target: Annotated[str, msgspec.Meta(extra_json_schema={"format": "target"})] = "any"
    timeout: Seconds | None = None
    priority: Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)] = 0
    key: PrintableText = ""
    #: How often a task that fails runs again: a number, or an object with `times`, `backoff`,
    #: `factor`, `longest`, `jitter` and `on`.
    retries: int | dict[str, Any] | str | None = None
    #: Seconds before the job may start, or the instant (seconds since the epoch).
    delay: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_DELAY)] | None = None
    at: Annotated[float, msgspec.Meta(ge=0, le=1e11)] | None = None
    #: The URL that gets the end of the job; its host is in the broker's list.
    webhook: Annotated[str, msgspec.Meta(max_length=LONGEST_URL, pattern=JOB_HOOK)] | None = None
    #: Seconds after the job's end in which its result is given out.
    result_ttl: Limit | None = None
    run_timeout: Limit | None = None
    queue_timeout: Limit | None = None
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    #: A limit that the job shares with the other jobs of its key: an object with `key`,
    #: `concurrency`, `rate`, `per` and `burst`.
    limit: dict[str, Any] | str | None = None
    #: Of a child job: the parent's id, and the position among its children.
    parent: ParentRequest | None = None
    #: A key that only one job has at a time, or an object with `key`, `until`, `period`, `quiet`.
    unique: dict[str, Any] | str | None = None
    #: The job's id, if the client chooses it; the same id again is the same job.
    job: PrintableText = ""
    headers: dict[str, str] = {}
    #: Whether the job of a call goes on (`continue`) or is cancelled if its caller disconnects.
    on_disconnect: Literal["continue", "cancel"] = "continue"


class JobRequests(msgspec.Struct, forbid_unknown_fields=True):
    """Several submissions, each as `JobRequest`; an invalid one does not refuse the others."""

    jobs: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=MOST_JOBS)]


class InputAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """Input for a running job."""

    value: Any = None
    request: str = ""
    worker: str = ""


class JobRoutes:
    """The routes about jobs."""

    def __init__(
        self, channels: ClientChannels, settings: HttpSettings, new_id: Callable[[], str]
    ) -> None:
        self._channels = channels
        self._settings = settings
        self._new_id = new_id

    def _channel(self, request: Request) -> ClientChannel:
        return self._channels.of(client_name(request))

    # --- submitting ---------------------------------------------------------------------------

    async def submit(self, request: Request) -> Response:
        """POST /v1/jobs: submit a job; the response follows when it is on disk."""
        wanted, call = await self._read(request)
        channel = self._channel(request)
        await channel.submit(self._submission(channel, wanted, call))
        return pending(wanted.job, {"job": wanted.job, "state": "queued"})

    async def submit_many(self, request: Request) -> Response:
        """POST /v1/jobs/bulk: submit jobs; they share a disk write, each has its own outcome."""
        require_json(request.headers)
        settings = self._settings
        raw = await read_bytes(request, settings.max_body, settings.body_timeout)
        channel = self._channel(request)
        ids: set[str] = set()
        found = [
            self._read_one(request, channel, bytes(each), ids)
            for each in read_json(raw, JobRequests).jobs
        ]
        submitted = [each for each in found if isinstance(each, JobSubmitted)]
        faults = iter(await channel.submit_many(submitted))
        return answer({"jobs": [_outcome(each, faults) for each in found]})

    def _read_one(
        self, request: Request, channel: ClientChannel, raw: bytes, ids: set[str]
    ) -> JobSubmitted | Problem:
        """Read one submission of a list; an invalid one is a problem of its own.

        Replies are matched by job, so an id may stand only once in a list.
        """
        job = ""
        try:
            wanted = read_json(raw, JobRequest)
            job = wanted.job
            self._complete(wanted)
            if wanted.job in ids:
                raise Problem(400, f"the job id {wanted.job!r} stands twice in the list")
            ids.add(wanted.job)
            headers = _traced(request, wanted.headers)
            args = tuple(wanted.args)
            call = Call(wanted.task, args, wanted.kwargs, None, headers, wanted.timeout)
            return self._submission(channel, wanted, call)
        except Problem as problem:
            problem.members["job"] = job
            return problem

    async def call(self, request: Request) -> Response:
        """POST /v1/call: submit, and wait for the result."""
        wanted, call = await self._read(request)
        return await self._call(request, wanted, call, is_raw=False)

    async def call_raw(self, request: Request) -> Response:
        """POST /v1/call/{service}: the same with bytes in and out."""
        if media_type(request.headers) != BYTES:
            detail = f"send the body as {BYTES}, or JSON to /v1/call"
            raise Problem(415, detail, headers={"Accept-Post": BYTES})
        wanted, call = await self._read_raw(request)
        return await self._call(request, wanted, call, is_raw=True)

    async def _read_raw(self, request: Request) -> tuple[JobRequest, Call]:
        """Read a submission of raw bytes; the query string has the rest."""
        query = {**request.query_params, **request.path_params}
        try:
            wanted = msgspec.convert(query, JobRequest, strict=False)
        except msgspec.ValidationError as error:
            raise Problem(400, f"invalid query: {error}") from None
        raw = await read_bytes(request, self._settings.max_body, self._settings.body_timeout)
        self._complete(wanted, idempotency_key(request))
        headers = _traced(request, {})
        return wanted, Call(wanted.task, raw=raw, headers=headers, timeout=wanted.timeout)

    async def _read(self, request: Request) -> tuple[JobRequest, Call]:
        if media_type(request.headers) == BYTES:
            return await self._read_raw(request)
        require_json(request.headers)
        settings = self._settings
        raw = await read_bytes(request, settings.max_body, settings.body_timeout)
        wanted = read_json(raw, JobRequest)
        self._complete(wanted, idempotency_key(request))
        args, headers = tuple(wanted.args), _traced(request, wanted.headers)
        return wanted, Call(wanted.task, args, wanted.kwargs, None, headers, wanted.timeout)

    def _complete(self, wanted: JobRequest, key: str = "") -> None:
        """Check the names; add the key of the header and a new job id."""
        checked_name(wanted.service, "a service name")
        wanted.key = wanted.key or key
        wanted.job = wanted.job or self._new_id()
        checked_name(wanted.job, "a job id")
        checked_name(wanted.key or "-", "a key")

    def _submission(self, channel: ClientChannel, wanted: JobRequest, call: Call) -> JobSubmitted:
        """Return the core's event of a submission."""
        try:
            body = json_call(call)
        except Unmappable as error:
            raise Problem(400, str(error)) from None
        return JobSubmitted(
            JobId(wanted.job),
            channel.peer,
            ServiceName(wanted.service),
            body,
            _target(wanted.target),
            self._terms(wanted),
            wanted.task,
            wanted.key,
        )

    def _terms(self, wanted: JobRequest) -> Terms:
        settings = self._settings
        timeout = wanted.timeout or settings.timeout
        terms = Terms(patience=settings.patience, timeout=timeout, priority=wanted.priority)
        given = {name: getattr(wanted, name) for name in OPTIONS}
        try:
            return apply_options(terms, {k: v for k, v in given.items() if v is not None})
        except ValueError as error:
            raise Problem(400, str(error)) from None

    async def _call(
        self, request: Request, wanted: JobRequest, call: Call, is_raw: bool
    ) -> Response:
        channel = self._channel(request)
        submitted = self._submission(channel, wanted, call)
        try:
            reply = await self._run(request, channel, submitted)
        except ClientDisconnected:
            if wanted.on_disconnect == "cancel":
                channel.tell(JobCancelled(submitted.job, channel.peer))
            raise
        if reply is not None and _is_whole(reply, submitted):
            return final_response(reply, is_raw)
        return result_response(await _status(channel, submitted.job), is_raw)

    async def _run(
        self, request: Request, channel: ClientChannel, submitted: JobSubmitted
    ) -> SendReply | None:
        """Submit and wait; return the final reply, None if there is none for this client."""
        job, timeout = submitted.job, submitted.terms.timeout or 0.0
        endings = self._channels.endings
        with ExitStack() as waits:
            end = waits.enter_context(self._channels.connection.future())
            waits.enter_context(channel.finals.waiting(job, end))
            waits.enter_context(endings.waiting(job, end))
            channel.tell(submitted)
            if submitted.key:
                # The key may be of another job: then only the end of that one is certain to come.
                found = await _status(channel, job)
                if found.status is not None and found.status.job != job:
                    waits.enter_context(endings.waiting(found.status.job, end))
            return await _within(request, end, timeout + MARGIN)

    # --- status, result, cancel, input --------------------------------------------------------

    async def status(self, request: Request) -> Response:
        """GET /v1/jobs/{job}: the status of a job, without its result."""
        found = await _status(self._channel(request), request.path_params["job"])
        return answer(status_document(found))

    async def result(self, request: Request) -> Response:
        """GET /v1/jobs/{job}/result: the result; waits for it if asked to."""
        wait = number(request, "wait", 0.0, 0.0, self._settings.long_poll)
        channel, job = self._channel(request), request.path_params["job"]
        found = await _status(channel, job)
        if wait and is_open(found):
            found = await self._wait(request, channel, found, wait)
        return result_response(found, media_type_wanted(request) == BYTES)

    async def forget_result(self, request: Request) -> Response:
        """DELETE /v1/jobs/{job}/result: give the result of a finished job out no more."""
        channel, job = self._channel(request), request.path_params["job"]
        call = Call("forget_result", (job,), timeout=_PATIENCE)
        wanted = JobRequest(MANAGEMENT, call.task, timeout=_PATIENCE)
        self._complete(wanted)
        reply = await self._run(request, channel, self._submission(channel, wanted, call))
        if reply is None:
            raise Problem(504, f"the broker has not confirmed that it forgot {job}; ask again")
        return final_response(reply, is_raw=False)

    async def _wait(
        self, request: Request, channel: ClientChannel, found: SendStatus, wait: float
    ) -> SendStatus:
        """Wait for the end of any client's job; return its status then."""
        endings, job = self._channels.endings, known(found).job
        with self._channels.connection.future() as end, endings.waiting(job, end):
            # The job may have ended since the first answer.
            found = await _status(channel, found.job)
            if not is_open(found):
                return found
            await _within(request, end, wait)
        return await _status(channel, found.job)

    async def cancel(self, request: Request) -> Response:
        """DELETE /v1/jobs/{job}: cancel it; says whether its worker confirmed."""
        channel, job = self._channel(request), JobId(request.path_params["job"])
        found = await channel.ask(JobCancelled(job, channel.peer))
        document = status_document(found)
        is_cancelled = known(found).state is JobState.CANCELLED
        is_confirmed = found.fault is not None and found.fault.code is FaultCode.CANCELLED
        document |= {"cancelled": is_cancelled, "confirmed": is_cancelled and is_confirmed}
        return answer(document)

    async def give_input(self, request: Request) -> Response:
        """POST /v1/jobs/{job}/input: send input to a running job."""
        require_json(request.headers)
        settings = self._settings
        raw = await read_bytes(request, settings.max_body, settings.body_timeout)
        given = read_json(raw, InputAnswer)
        channel, job = self._channel(request), JobId(request.path_params["job"])
        body = question(given.request, given.value)
        worker = WorkerName(given.worker) if given.worker else None
        await channel.commit(InputReceived(job, channel.peer, body, worker))
        return answer({"job": job, "given": True}, 202)


def _is_whole(reply: SendReply, submitted: JobSubmitted) -> bool:
    """Whether a final reply has all that the response needs: a refusal, or one worker's result."""
    if reply.state is None:
        return True
    return bool(reply.worker) and is_for_one(submitted.target, submitted.service)


async def _status(channel: ClientChannel, job: str) -> SendStatus:
    return await channel.ask(ResultRequested(JobId(job), channel.peer))


async def _within(request: Request, end: "asyncio.Future[Any]", wait: float) -> SendReply | None:
    """Wait for an end as long as the caller does; None if it does not come in time."""
    try:
        async with asyncio.timeout(wait):
            with failing_on_disconnect(request, end):
                reply: SendReply | None = await end
                return reply
    except TimeoutError:
        return None


def _traced(request: Request, headers: dict[str, str]) -> dict[str, str]:
    """Return the headers of a call, with the trace context of the HTTP request."""
    given = request.headers.get(HEADER, "")
    return {HEADER: given[:256], **headers} if given else headers


def _outcome(found: JobSubmitted | Problem, faults: Iterator[Fault | None]) -> dict[str, object]:
    """Return what became of one submission of a list."""
    if isinstance(found, JobSubmitted):
        fault = next(faults)
        if fault is None:
            return {"job": found.job, "state": "queued"}
        found = of_fault(fault, job=found.job)
    return found.document()


def _target(text: str) -> Target:
    try:
        return parse_target(text)
    except ValueError as error:
        raise Problem(400, str(error)) from None


def media_type_wanted(request: Request) -> str:
    """Return the first media type that the caller accepts."""
    accepted = request.headers.get("accept", "").partition(",")[0]
    return accepted.partition(";")[0].strip().lower()
