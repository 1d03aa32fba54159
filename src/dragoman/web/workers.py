"""Workers over HTTP: register, poll for messages, report on jobs, publish events, leave."""

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dragoman.core.events import (
    JobForwarded,
    Noted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.dialects.http.assignments import REPEATED
from dragoman.dialects.http.body_codec import NAME, code_of, json_answer, json_call, question
from dragoman.dialects.http.settings import HttpSettings
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind
from dragoman.web.broker_connection import WebBrokerConnection
from dragoman.web.job_documents import answer
from dragoman.web.problems import Problem
from dragoman.web.request_reading import (
    BYTES,
    PRINTABLE,
    PrintableText,
    checked_name,
    media_type,
    read_bytes,
    read_json,
    require_json,
)
from dragoman.web.worker_sessions import (
    HttpWorkerSessions,
    WorkerSession,
    message_document,
    message_response,
)

#: More attempts than any job has, and than the ledger can count.
_NO_ATTEMPT: Final = 2**31
#: Most reports in one list.
MOST_REPORTS: Final = 1000
#: The kinds of report, beside `forward`, and what each is to the core.
_REPORTS: Final = {
    "accepted": ReplyKind.ACCEPTED,
    "progress": ReplyKind.PROGRESS,
    "chunk": ReplyKind.CHUNK,
    "ask": ReplyKind.INPUT_ASKED,
    "final": ReplyKind.FINAL,
    "handed_back": ReplyKind.FINAL,
    "cancelled": ReplyKind.FINAL,
}
KINDS: Final = [*_REPORTS, "forward"]
_FAULTS: Final = {
    "handed_back": Fault(FaultCode.HANDED_BACK, "the worker returned the job unrun"),
    "cancelled": Fault(FaultCode.CANCELLED, "the worker stopped the job"),
}

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
ServiceText = Annotated[Name, msgspec.Meta(extra_json_schema=PRINTABLE)]
Count = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Span = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
SessionId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


class WorkerRegistration(msgspec.Struct, forbid_unknown_fields=True):
    """The registration of a worker."""

    services: Annotated[list[ServiceText], msgspec.Meta(min_length=1, max_length=1000)]
    name: PrintableText = ""
    labels: dict[str, str] = {}
    resources: list[str] = []
    #: Jobs it takes at a time.
    credit: Count = 1
    #: Seconds it may be silent while it holds a job, for workers that cannot poll meanwhile.
    busy_lease: Span = 0.0
    #: To resume: its former session, and the jobs it still holds.
    session: SessionId | None = None
    holds: list[str] | None = None


class PollRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How long to wait, and the number of the last message that arrived."""

    wait: Span | None = None
    after: int | None = None
    #: Return up to so many messages, as a list; without it, one message.
    most: Count | None = None


class WorkerReport(msgspec.Struct, forbid_unknown_fields=True):
    """A worker's report on a job."""

    kind: Annotated[str, msgspec.Meta(extra_json_schema={"enum": KINDS})] = "final"
    value: Any = None
    fault: dict[str, str] | None = None
    #: The name of a question.
    request: str = ""
    #: The service that the job is forwarded to, and the call.
    service: PrintableText = ""
    task: str = ""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    #: The job, in a list of reports; elsewhere the path names it.
    job: str = ""
    attempt: Annotated[int, msgspec.Meta(ge=0, lt=_NO_ATTEMPT)] = 0


class WorkerReports(msgspec.Struct, forbid_unknown_fields=True):
    """Several reports, each as `WorkerReport`; an invalid one does not refuse the others."""

    reports: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=MOST_REPORTS)]


class PublishRequest(msgspec.Struct, forbid_unknown_fields=True):
    """An event to publish."""

    topic: Name
    event: Any = None


class WorkerRoutes:
    """The routes for workers."""

    def __init__(
        self, connection: WebBrokerConnection, settings: HttpSettings, new_id: Callable[[], str]
    ) -> None:
        self._settings = settings
        self.sessions = HttpWorkerSessions(connection, settings.remembered, new_id)

    async def _body(self, request: Request) -> bytes:
        return await read_bytes(request, self._settings.max_body, self._settings.body_timeout)

    async def _json(self, request: Request) -> bytes:
        raw = await self._body(request)
        if raw:
            require_json(request.headers)
        return raw

    def _session(self, request: Request) -> WorkerSession:
        return self.sessions.find(request.path_params["session"])

    async def ready(self, request: Request) -> Response:
        """POST /v1/workers: register, or resume a session."""
        offer = read_json(await self._json(request), WorkerRegistration)
        for service in offer.services:
            checked_name(service, "a service name")
        checked_name(offer.name or "-", "a worker name")
        session = self.sessions.open(offer.session)
        name = offer.name or f"http-{session.id[:8]}"
        self.sessions.assignments.resume(session.id, offer.holds or ())
        try:
            await session.commit(self._joined(session.peer, name, offer))
        except Problem:
            if not session.ended:
                raise
            # The broker dismissed it instead of a registration: to try again at once is no use.
            raise Problem(403, session.ended, FaultCode.DENIED) from None
        settings = self._settings
        document = {
            "session": session.id,
            "name": name,
            "beat_every": settings.beat_every,
            "lease": settings.beat_every * settings.missed_allowed,
            "longest_wait": settings.long_poll,
        }
        return answer(document, 201, {"Location": f"/v1/workers/{session.id}"})

    def _joined(self, peer: PeerId, name: str, offer: WorkerRegistration) -> WorkerJoined:
        settings = self._settings
        missed = int(min(offer.busy_lease, settings.longest_lease) / settings.beat_every)
        return WorkerJoined(
            peer,
            WorkerName(name),
            tuple(map(ServiceName, offer.services)),
            credit=offer.credit,
            credit_returns=True,
            beat_every=settings.beat_every,
            missed_allowed=settings.missed_allowed,
            missed_allowed_busy=missed if missed > settings.missed_allowed else None,
            labels=offer.labels,
            resources=tuple(offer.resources),
            can_cancel=True,
            holds=frozenset(map(JobId, offer.holds or ())),
            dialect=NAME,
        )

    async def poll(self, request: Request) -> Response:
        """POST /v1/workers/{session}/poll: wait for a message."""
        session = self._session(request)
        poll = read_json(await self._json(request), PollRequest)
        longest = self._settings.long_poll
        wait = longest if poll.wait is None else min(poll.wait, longest)
        session.acknowledge(poll.after)
        # Heartbeats at half the interval: a waiting worker never comes near the end of its lease.
        most, beat_every = poll.most or 1, self._settings.beat_every / 2
        messages = await session.next_messages(request, wait, beat_every, most)
        session.require()
        if poll.most is not None:
            return answer({"messages": [message_document(each) for each in messages]})
        if not messages:
            return answer({}, headers={"Dragoman-Kind": "none"})
        return message_response(messages[0], request.headers.get("accept", "") == BYTES)

    async def report(self, request: Request) -> Response:
        """POST /v1/workers/{session}/jobs/{job}/{attempt}: report on a job."""
        session = self._session(request)
        job, attempt = JobId(request.path_params["job"]), request.path_params["attempt"]
        event = await self._event(request, session.peer, job, attempt)
        verdict = self._judge(session, event)
        await session.commit(*(() if verdict == REPEATED else (event,)))
        return answer({"job": job, "attempt": attempt, "status": verdict})

    async def reports(self, request: Request) -> Response:
        """POST /v1/workers/{session}/reports: report on several jobs, with one disk write."""
        session = self._session(request)
        given = read_json(await self._json(request), WorkerReports)
        events: list[Report] = []
        outcomes = [self._outcome(session, bytes(raw), events) for raw in given.reports]
        await session.commit(*events)
        return answer({"reports": outcomes})

    def _outcome(
        self, session: WorkerSession, raw: bytes, events: "list[Report]"
    ) -> dict[str, object]:
        """Judge one report of a list and add its event; an invalid one is a problem of its own."""
        try:
            report = read_json(raw, WorkerReport)
            event = _read_report(session.peer, JobId(report.job), report.attempt, report)
        except Problem as problem:
            return problem.document()
        verdict = self._judge(session, event)
        if verdict != REPEATED:
            events.append(event)
        return {"job": report.job, "attempt": report.attempt, "status": verdict}

    def _judge(self, session: WorkerSession, event: "Report") -> str:
        is_final = isinstance(event, JobForwarded) or event.kind is ReplyKind.FINAL
        assignments = self.sessions.assignments
        return assignments.judge(session.id, event.job, event.attempt or 0, is_final)

    async def _event(self, request: Request, peer: PeerId, job: JobId, attempt: int) -> "Report":
        raw = await self._body(request)
        if media_type(request.headers) == BYTES:
            report = WorkerReport(request.query_params.get("kind", "final"))
            return _reply(peer, job, attempt, report, json_answer(Answer(raw=raw)))
        require_json(request.headers)
        return _read_report(peer, job, attempt, read_json(raw, WorkerReport))

    async def publish(self, request: Request) -> Response:
        """POST /v1/workers/{session}/events: publish an event."""
        session = self._session(request)
        event = read_json(await self._json(request), PublishRequest)
        body = json_answer(Answer(event.event))
        await session.commit(Noted(Kind.PUBLISHED, session.peer, event.topic, body, dialect=NAME))
        return answer({"topic": event.topic, "published": True}, 202)

    async def leave(self, request: Request) -> Response:
        """DELETE /v1/workers/{session}: leave; its jobs go to other workers."""
        session = self._session(request)
        await session.commit(PeerLeft(session.peer, "the worker left"))
        session.end("the worker has left")
        self.sessions.drop(session)
        return Response(status_code=204)


Report = ReplyReceived | JobForwarded


def _read_report(peer: PeerId, job: JobId, attempt: int, report: WorkerReport) -> Report:
    """Return the event of a report in JSON."""
    if not 0 <= attempt < _NO_ATTEMPT:
        raise Problem(404, f"no job has {attempt} attempts")
    try:
        if report.kind == "forward":
            return _forwarded(peer, job, attempt, report)
        return _reply(peer, job, attempt, report, _content(report))
    except Unmappable as error:
        raise Problem(400, str(error)) from None


def _forwarded(peer: PeerId, job: JobId, attempt: int, report: WorkerReport) -> JobForwarded:
    service = ServiceName(checked_name(report.service, "a service name"))
    body = json_call(Call(report.task, tuple(report.args), report.kwargs))
    return JobForwarded(peer, job, service, body, task=report.task, attempt=attempt)


def _reply(
    peer: PeerId, job: JobId, attempt: int, report: WorkerReport, body: Body
) -> ReplyReceived:
    kind = _REPORTS.get(report.kind)
    if kind is None:
        raise Problem(400, f"kind must be one of {', '.join(sorted(_REPORTS))}, forward")
    fault = _fault(report) or _FAULTS.get(report.kind)
    return ReplyReceived(peer, job, kind, body, fault, attempt)


def _fault(report: WorkerReport) -> Fault | None:
    if report.fault is None:
        return None
    return Fault(code_of(report.fault.get("code", "")), report.fault.get("message", ""))


def _content(report: WorkerReport) -> Body:
    if report.kind == "ask":
        return question(report.request, report.value)
    return json_answer(Answer(report.value, fault=_fault(report)))
