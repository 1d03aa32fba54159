"""The broker's front-end of ZSS: clients ask services, and TITANIC for what they left behind."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

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
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.body_codec import task_of
from dragoman.dialects.zss.instances import ServiceInstances
from dragoman.dialects.zss.replies import ZssOpenRequest, ZssReplies
from dragoman.dialects.zss.settings import ZssSettings
from dragoman.dialects.zss.statuses import refusal_payload
from dragoman.dialects.zss.wire import (
    PRT,
    REP,
    ZssAddress,
    ZssMessage,
    body_of,
    decode,
    encode,
    read_address,
    with_sid,
    with_time,
)
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

#: The broker's own service on the front-end, and before a slash the wish to be kept by it.
TITANIC: Final = "TITANIC"
_KEPT: Final = TITANIC + "/"
_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(-?)(?:[0-9a-fA-F]{4}\1){3}[0-9a-fA-F]{12}")
_LONGEST: Final = 256
_QUESTIONS: Final = {"RESULT": RequestKind.RESULT, "CANCEL": RequestKind.CANCEL}


class ZssFrontSide:
    """The link that clients connect to."""

    def __init__(
        self,
        link: str,
        *,
        answers: ZssReplies,
        instances: ServiceInstances,
        codecs: BodyCodecs,
        ids: Callable[[], str],
        settings: ZssSettings,
    ) -> None:
        self.link = link
        self._answers = answers
        self._instances = instances
        self._codecs = codecs
        self._ids = ids
        self._settings = settings

    def receive(self, address: Sender, frames: Frames, now: float) -> list[Event | Send]:
        """Take one message in. Any type but a part is a request, as upstream."""
        m = decode(frames)
        if m.identity is not None:
            raise MalformedMessage("a client's message has 7 frames, not 8")
        to, client = read_address(m.address), peer_id(self.link, text_of(address))
        if m.kind == PRT:
            return [self._part_of_request(client, m, to)]
        sid = to.sid.upper()
        if sid == TITANIC:
            return self._question(address, client, m, to, now)
        is_titanic = sid.startswith(_KEPT)
        service = self._instances.find(to.sid[len(_KEPT) :] if is_titanic else to.sid, to.sversion)
        job = JobId(job_of(m, to) or self._ids())
        asking = ZssOpenRequest(m, now, to.extra.get("partial") is True, is_titanic)
        submitted = self._submitted(job, client, service, m, to, is_titanic)
        self._answers.expect(job, client, asking)
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
        timeout, priority = to.extra.get("timeout"), to.extra.get("priority")
        if isinstance(timeout, int | float) and 0 < timeout < 1e9:
            terms = replace(terms, timeout=float(timeout))
        if type(priority) is int and priority and abs(priority) < 2**31:
            terms = replace(terms, priority=priority)
        return terms

    def _part_of_request(self, client: PeerId, m: ZssMessage, to: ZssAddress) -> Event:
        """Take a further piece of a request: input to the job that its first piece began."""
        job = job_of(m, to)
        if not job:
            raise MalformedMessage("a part has a UUID for its request id, or names its job")
        worker = to.extra.get("worker")
        named = WorkerName(worker) if worker and isinstance(worker, str) else None
        return InputReceived(JobId(job), client, body_of(m), named)

    def _question(
        self, address: Sender, client: PeerId, m: ZssMessage, to: ZssAddress, now: float
    ) -> list[Event | Send]:
        """Take a question about a job, which the payload names by its request id."""
        asked = _QUESTIONS.get(to.verb.upper())
        if asked is None:
            return [self._not_found(address, m, now)]
        job = JobId(_payload_text(m.payload))
        self._answers.expect_status(job, client, asked, ZssOpenRequest(m, now))
        if asked is RequestKind.CANCEL:
            return [JobCancelled(job, client)]
        return [ResultRequested(job, client)]

    def _not_found(self, address: Sender, m: ZssMessage, now: float) -> Send:
        headers = with_time(m.headers, b"micro.bfer", now) if self._settings.traces else m.headers
        reply = replace(m, kind=REP, status=b"404", headers=headers, payload=refusal_payload(404))
        return Send(address, encode(reply))

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Put one effect on a client into messages."""
        if type(effect) is SendReply:
            reply = self._answers.reply(effect, now)
        elif type(effect) is SendStatus:
            reply = self._answers.status(effect, now)
        else:
            return []
        return [Send(raw_of(name_of(effect.client)), encode(reply))] if reply is not None else []

    def advance(self, now: float) -> list[Event | Send]:
        """Do nothing: the side has no timers."""
        return []

    def next_deadline(self) -> float | None:
        """Want nothing."""
        return None


def job_of(m: ZssMessage, to: ZssAddress) -> str:
    """Name the job of a request: as it says itself, or by its request id if that is a UUID.

    Any other request id is given back and names nothing: the text wants UUIDs, and what is not
    unique by its making must not be taken for a repetition. Empty: the request has no name.
    """
    job = to.extra.get("job")
    if isinstance(job, str) and 0 < len(job) <= _LONGEST and job.isprintable():
        return job
    return m.rid.decode() if _UUID.fullmatch(m.rid) else ""


def _without_titanic(address: bytes, to: ZssAddress) -> bytes:
    try:
        return with_sid(address, to.sid[len(_KEPT) :].upper())
    except Unmappable as trouble:
        raise MalformedMessage(f"the address cannot be written anew: {trouble}") from None


def _payload_text(payload: bytes) -> str:
    try:
        said: Any = oldpack.decode(payload)
    except ValueError as trouble:
        raise MalformedMessage(f"the payload is {trouble}") from None
    if not isinstance(said, str) or not 0 < len(said) <= _LONGEST:
        raise MalformedMessage("the payload is not the request id of a job")
    return said


def _target(said: object) -> Target:
    if said is None or said == "any":
        return ANY
    try:
        return parse_target(said if isinstance(said, str) else "")
    except ValueError as trouble:
        raise MalformedMessage(str(trouble)) from None
