"""The broker's front-end of ZSS: clients send requests to services, and questions to TITANIC."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dragoman.core.effects import Effect, RequestKind, SendReply, SendStatus
from dragoman.core.events import (
    Event,
    InputReceived,
    JobCancelled,
    JobSubmitted,
    ResultRequested,
)
from dragoman.dialects.base import Address as Sender
from dragoman.dialects.base import BodyCodecs, Frames, MalformedMessage, Send
from dragoman.dialects.note_requests import note_terms
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.body_codec import task_of
from dragoman.dialects.zss.instances import ServiceInstances
from dragoman.dialects.zss.replies import ZssOpenRequest, ZssReplies
from dragoman.dialects.zss.settings import ZssSettings
from dragoman.dialects.zss.statuses import refusal_payload
from dragoman.dialects.zss.wire import (
    NAME,
    PRT,
    REP,
    REQ,
    ZssAddress,
    ZssMessage,
    body_of,
    decode,
    encode,
    message_of,
    read_address,
    with_sid,
    with_time,
)
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.names import (
    JobId,
    PeerId,
    ServiceName,
    WorkerName,
    name_of,
    peer_id,
    raw_of,
    text_of,
)
from dragoman.model.target import ANY, Target, parse_target
from dragoman.model.terms import Terms

#: The broker's own service on the front-end. A sid after `TITANIC/` is stored until it ends.
TITANIC: Final = "TITANIC"
_STORED: Final = TITANIC + "/"
_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(-?)(?:[0-9a-fA-F]{4}\1){3}[0-9a-fA-F]{12}")
_LONGEST: Final = 256
_QUESTIONS: Final = {"RESULT": RequestKind.RESULT, "CANCEL": RequestKind.CANCEL}


class ZssFrontSide:
    """The link that clients connect to."""

    def __init__(
        self,
        link: str,
        *,
        replies: ZssReplies,
        instances: ServiceInstances,
        codecs: BodyCodecs,
        ids: Callable[[], str],
        settings: ZssSettings,
    ) -> None:
        self.link = link
        self._replies = replies
        self._instances = instances
        self._codecs = codecs
        self._ids = ids
        self._settings = settings

    def receive(self, address: Sender, frames: Frames, now: float) -> list[Event | Send]:
        """Read one message. Any type but a part is a request, as upstream."""
        m = decode(frames)
        if m.identity is not None:
            raise MalformedMessage("a client's message has 7 frames, not 8")
        to, client = read_address(m.address), peer_id(self.link, text_of(address))
        if m.kind == PRT:
            return [self._part_of_request(client, m, to)]
        sid = to.sid.upper()
        if sid == TITANIC:
            return self._question(address, client, m, to, now)
        is_titanic = sid.startswith(_STORED)
        service = self._instances.find(
            to.sid[len(_STORED) :] if is_titanic else to.sid, to.sversion
        )
        job = JobId(job_of(m, to) or self._ids())
        request = ZssOpenRequest(m, now, to.extra.get("partial") is True, is_titanic)
        submitted = self._submitted(job, client, service, m, to, is_titanic)
        self._replies.expect(job, client, request)
        return [submitted]

    def _submitted(
        self,
        job: JobId,
        client: PeerId,
        service: ServiceName,
        m: ZssMessage,
        to: ZssAddress,
        is_titanic: bool,
    ) -> JobSubmitted:
        if is_titanic:
            m = replace(m, address=_without_titanic(m.address, to))
        return JobSubmitted(
            job,
            client,
            service,
            body_of(m),
            target=_target(to.extra.get("target")),
            terms=self._terms(service, to, is_titanic),
            task=task_of(to.verb),
        )

    def _terms(self, service: ServiceName, to: ZssAddress, is_titanic: bool) -> Terms:
        settings = self._settings
        name = service.partition("@")[0]
        terms = settings.titanic if is_titanic else settings.services.get(name, settings.terms)
        return note_terms(terms, dict(to.extra))

    def _part_of_request(self, client: PeerId, m: ZssMessage, to: ZssAddress) -> Event:
        """Read a further part of a request: it is input for the job of the first part."""
        job = job_of(m, to)
        if not job:
            raise MalformedMessage(
                "a PRT message needs a UUID as request id, or `job` in its address"
            )
        worker = to.extra.get("worker")
        named = WorkerName(worker) if worker and isinstance(worker, str) else None
        return InputReceived(JobId(job), client, body_of(m), named)

    def _question(
        self, address: Sender, client: PeerId, m: ZssMessage, to: ZssAddress, now: float
    ) -> list[Event | Send]:
        """Read a question about a job. The payload holds the job's request id."""
        asked = _QUESTIONS.get(to.verb.upper())
        if asked is None:
            return [self._not_found(address, m, now)]
        job = JobId(_payload_text(m.payload))
        self._replies.expect_status(job, client, asked, ZssOpenRequest(m, now))
        if asked is RequestKind.CANCEL:
            return [JobCancelled(job, client)]
        return [ResultRequested(job, client)]

    def _not_found(self, address: Sender, m: ZssMessage, now: float) -> Send:
        headers = with_time(m.headers, b"micro.bfer", now) if self._settings.traces else m.headers
        reply = replace(m, kind=REP, status=b"404", headers=headers, payload=refusal_payload(404))
        return Send(address, encode(reply))

    def resume_request(self, job: JobId, client: PeerId, body: Body, now: float) -> None:
        """Remember a request that a client sent to an earlier process."""
        if body.dialect == NAME and not self._replies.is_open(job, client):
            m = message_of(body, REQ)
            partial = read_address(m.address).extra.get("partial") is True
            self._replies.expect(job, client, ZssOpenRequest(m, now, partial))

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Write the messages for one effect on a client."""
        if type(effect) is SendReply:
            reply = self._replies.reply(effect, now)
        elif type(effect) is SendStatus:
            reply = self._replies.status(effect, now)
        else:
            return []
        return [Send(raw_of(name_of(effect.client)), encode(reply))] if reply is not None else []

    def advance(self, now: float) -> list[Event | Send]:
        """Do nothing: this side has no timers."""
        return []

    def next_deadline(self) -> float | None:
        """Return None: this side has no timers."""
        return None


def job_of(m: ZssMessage, to: ZssAddress) -> str:
    """Return the job id of a request: `job` of its address, or its request id if that is a UUID.

    Other request ids are not unique by construction, so the same one again is not a repetition.
    Such a request has no job id: the result is empty.
    """
    job = to.extra.get("job")
    if isinstance(job, str) and 0 < len(job) <= _LONGEST and job.isprintable():
        return job
    return m.rid.decode() if _UUID.fullmatch(m.rid) else ""


def _without_titanic(address: bytes, to: ZssAddress) -> bytes:
    try:
        return with_sid(address, to.sid[len(_STORED) :].upper())
    except Unmappable as error:
        raise MalformedMessage(f"the address has no form without TITANIC: {error}") from None


def _payload_text(payload: bytes) -> str:
    try:
        job: object = oldpack.decode(payload)
    except ValueError as error:
        raise MalformedMessage(f"the payload is {error}") from None
    if not isinstance(job, str) or not 0 < len(job) <= _LONGEST:
        raise MalformedMessage(f"the payload must be a request id: text of 1 to {_LONGEST} bytes")
    return job


def _target(target: object) -> Target:
    if target is None or target == "any":
        return ANY
    try:
        return parse_target(target if isinstance(target, str) else "")
    except ValueError as error:
        raise MalformedMessage(str(error)) from None
