"""What goes back to ZSS clients: results, faults, parts of streams, and how jobs stand.

Kept per request until it ends: what the reply has to give back. Clients open a connection per call,
so nothing is kept of them after that. A client settles a call with the first message that arrives,
whatever it is; so only one that says in its address that it reads parts (`partial`) gets any.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dragoman.core.effects import JobStatus, RequestKind, SendReply, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.dialects.base import BodyCodecs, MalformedMessage, convert_answer, keyed_by_worker
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.body_codec import answer_frames
from dragoman.dialects.zss.wire import (
    NAME,
    NO_HEADERS,
    PRT,
    REP,
    ZssMessage,
    address_map,
    message_of,
    with_time,
    write_address,
)
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import FINAL
from dragoman.model.names import JobId, PeerId

#: The status of a part says what it is.
_PARTS: Final = {
    ReplyKind.QUEUED: b"202",
    ReplyKind.DISPATCHED: b"202",
    ReplyKind.PROGRESS: b"102",
    ReplyKind.CHUNK: b"206",
    ReplyKind.INPUT_ASKED: b"100",
}
#: Several results in one reply.
GATHERED: Final = b"207"


class ZssOpenRequest:
    """One request of a client, until its reply has gone."""

    __slots__ = ("is_titanic", "is_told", "parts", "received_at", "request", "wants_parts")

    def __init__(
        self,
        request: ZssMessage,
        received_at: float,
        wants_parts: bool = False,
        is_titanic: bool = False,
    ) -> None:
        #: Kept for its protocol, request id, address and headers; not for its payload.
        self.request = ZssMessage(
            REP, request.rid, request.address, request.headers, b"", b"", request.protocol
        )
        self.received_at = received_at
        self.wants_parts = wants_parts
        #: It is answered as soon as it is on disk, and its result is fetched later.
        self.is_titanic = is_titanic
        self.is_told = False
        #: What came back from each instance of a request that went to several.
        self.parts: list[SendReply] = []


class ZssReplies:
    """The requests that wait for a reply, and how replies to them are written."""

    def __init__(self, codecs: BodyCodecs, traces: bool) -> None:
        self._codecs = codecs
        self._traces = traces
        self._asking: dict[JobId, dict[PeerId, ZssOpenRequest]] = {}
        self._questions: dict[tuple[PeerId, JobId, str], list[ZssOpenRequest]] = {}

    def __len__(self) -> int:
        return len(self._asking) + len(self._questions)

    def expect(self, job: JobId, client: PeerId, asking: ZssOpenRequest) -> None:
        """Remember who asked, for when the reply comes."""
        self._asking.setdefault(job, {})[client] = asking

    def expect_status(
        self, job: JobId, client: PeerId, asked: RequestKind, asking: ZssOpenRequest
    ) -> None:
        """Remember who wants to know how a job stands."""
        self._questions.setdefault((client, job, asked), []).append(asking)

    def received_at(self, job: JobId) -> float | None:
        """When the front-end received the request of a job, if it did."""
        clients = self._asking.get(job)
        return next(iter(clients.values())).received_at if clients else None

    # --- replies ----------------------------------------------------------------------------

    def reply(self, effect: SendReply, now: float) -> ZssMessage | None:
        """Write what a client is told about its job; None when it is told nothing."""
        if effect.kind is ReplyKind.FINAL:
            return self._final(effect, self._close(effect, now), now)
        asking = self._asking.get(effect.job, {}).get(effect.client)
        if asking is None:
            return None
        if effect.kind is ReplyKind.PART:
            asking.parts.append(effect)
            return None
        if asking.is_titanic:
            return self._accepted(effect, asking, now)
        return self._part(effect, asking, now) if asking.wants_parts else None

    def _close(self, effect: SendReply, now: float) -> ZssOpenRequest:
        """Let go of a request. A refusal, which has no state, ends only what was refused."""
        clients = self._asking.get(effect.job, {})
        found = clients.pop(effect.client, None)
        if effect.state is not None or not clients:
            self._asking.pop(effect.job, None)
        if found is None:
            # Asked of an earlier broker process; a reply in ZSS brings all it needs itself.
            address = write_address(effect.service.upper(), "")
            found = ZssOpenRequest(ZssMessage(REP, effect.job.encode(), address), now)
        return found

    def _accepted(self, effect: SendReply, asking: ZssOpenRequest, now: float) -> ZssMessage | None:
        """Confirm, once, that a request will outlive everybody."""
        if asking.is_told:
            return None
        asking.is_told = True
        said = {"job": effect.job, "state": "queued"}
        return self._write(asking, b"202", oldpack.encode(said), now)

    def _final(self, effect: SendReply, asking: ZssOpenRequest, now: float) -> ZssMessage | None:
        if asking.is_titanic and asking.is_told:
            return None
        if asking.parts:
            each = keyed_by_worker(
                (p.worker, self._one(p.body, p.fault, p.worker, p.resources)) for p in asking.parts
            )
            return self._write(asking, GATHERED, oldpack.encode(each), now)
        if effect.body.dialect == NAME:
            reply = self._as_the_service_said(effect.body, asking, now)
        else:
            status, payload = self._dressed(effect.body, effect.fault, effect.worker)
            reply = self._write(asking, status, payload, now)
        return self._signed(reply, effect) if asking.wants_parts else reply

    def _signed(self, m: ZssMessage, effect: SendReply) -> ZssMessage:
        """Say which instance a message is from, to clients that look for it."""
        whose: dict[str, Any] = {"worker": effect.worker}
        whose |= {"resources": list(effect.resources)} if effect.resources else {}
        # A question of another dialect goes by its job.
        said: dict[str, Any] = {"request": effect.job} if m.kind == PRT else {}
        try:
            address = oldpack.encode(said | address_map(m.address) | whose)
        except (MalformedMessage, Unmappable):
            # A service may write there what it likes.
            address = oldpack.encode({"sid": effect.service.upper()} | said | whose)
        return replace(m, address=address)

    def _as_the_service_said(self, body: Body, asking: ZssOpenRequest, now: float) -> ZssMessage:
        """Pass a reply of a ZSS service on, byte for byte but for the instant it leaves."""
        protocol, rid, address, headers, status, payload = body.parts
        asked = asking.request
        headers = headers or asked.headers
        if self._traces:
            headers = with_time(headers, b"micro.bfes", now)
        return ZssMessage(
            REP,
            rid or asked.rid,
            address or asked.address,
            headers,
            status,
            payload,
            protocol or asked.protocol,
        )

    def _dressed(self, body: Body, fault: Fault | None, worker: str) -> tuple[bytes, bytes]:
        """Write a result of another dialect, or a fault, as status and payload."""
        try:
            answer = self._answer(body, worker)
        except Unmappable as trouble:
            unmappable = Fault(FaultCode.UNMAPPABLE, str(trouble))
            return answer_frames(Answer(fault=fault or unmappable))
        if fault is None:
            return answer_frames(answer)
        words = answer.fault.message if answer.fault is not None else ""
        return answer_frames(Answer(fault=Fault(fault.code, words or fault.message)))

    def _answer(self, body: Body, worker: str) -> Answer:
        if not body.dialect:
            return Answer()
        dressed = convert_answer(self._codecs, body, NAME, worker)
        return self._codecs[NAME].read_answer(dressed)

    def _one(
        self, body: Body, fault: Fault | None, worker: str, resources: tuple[str, ...]
    ) -> dict[str, Any]:
        """Write one of several results."""
        served = {"resources": list(resources), "worker": worker} if resources else {}
        if fault is None:
            try:
                answer = self._answer(body, worker)
                said = answer.value if answer.raw is None else answer.raw
                oldpack.encode(said)
                return {"status": 200, "payload": said, **served}
            except Unmappable as trouble:
                fault = Fault(FaultCode.UNMAPPABLE, str(trouble))
        status, payload = answer_frames(Answer(fault=fault))
        return {"status": int(status), "payload": oldpack.decode(payload), **served}

    def _part(self, effect: SendReply, asking: ZssOpenRequest, now: float) -> ZssMessage | None:
        status = _PARTS.get(effect.kind)
        if status is None:
            return None
        if effect.body.dialect == NAME:
            part = self._as_the_service_said(effect.body, asking, now)
        elif status == b"202":
            said: dict[str, Any] = {"state": effect.kind.value, "workers": list(effect.workers)}
            part = self._write(asking, status, oldpack.encode(said), now)
        else:
            payload = self._dressed(effect.body, None, effect.worker)[1]
            part = self._write(asking, status, payload, now)
        return self._signed(replace(part, kind=PRT), effect)

    def _write(
        self, asking: ZssOpenRequest, status: bytes, payload: bytes, now: float
    ) -> ZssMessage:
        """Write a reply of the broker's own: everything else is given back."""
        headers = asking.request.headers or NO_HEADERS
        if self._traces:
            headers = with_time(headers, b"micro.bfer", asking.received_at)
            headers = with_time(headers, b"micro.bfes", now)
        return replace(asking.request, headers=headers, status=status, payload=payload)

    # --- questions --------------------------------------------------------------------------

    def status(self, effect: SendStatus, now: float) -> ZssMessage | None:
        """Write how a job stands, for a client that asked."""
        if effect.asked is RequestKind.INPUT:
            return self._useless_input(effect, now)
        key = (effect.client, effect.job, effect.asked)
        waiting = self._questions.get(key)
        if not waiting:
            return None
        asking = waiting.pop(0)
        if not waiting:
            del self._questions[key]
        return _STANDINGS[effect.asked](self, effect, asking, now)

    def _useless_input(self, effect: SendStatus, now: float) -> ZssMessage:
        """Say that a part of a request found no job; only such parts are ever answered."""
        fault = effect.fault or Fault(FaultCode.UNKNOWN_JOB)
        address = write_address("TITANIC", "INPUT")
        asking = ZssOpenRequest(ZssMessage(PRT, effect.job.encode(), address), now)
        return replace(self._write(asking, *answer_frames(Answer(fault=fault)), now), kind=PRT)

    def _unknown(self, effect: SendStatus, asking: ZssOpenRequest, now: float) -> ZssMessage:
        fault = effect.fault or Fault(FaultCode.UNKNOWN_JOB)
        return self._write(asking, *answer_frames(Answer(fault=fault)), now)

    def _cancelled(self, effect: SendStatus, asking: ZssOpenRequest, now: float) -> ZssMessage:
        if effect.status is None:
            return self._unknown(effect, asking, now)
        said = {"job": effect.job, "state": effect.status.state.value}
        if effect.fault is not None:
            said["detail"] = effect.fault.message
        return self._write(asking, b"200", oldpack.encode(said), now)

    def _result(self, effect: SendStatus, asking: ZssOpenRequest, now: float) -> ZssMessage:
        status = effect.status
        if status is None:
            return self._unknown(effect, asking, now)
        if status.state not in FINAL:
            said = {"job": effect.job, "state": status.state.value}
            return self._write(asking, b"202", oldpack.encode(said), now)
        return self._write(asking, *self._ended(status), now)

    def _ended(self, status: JobStatus) -> tuple[bytes, bytes]:
        """Write the result of a job that has ended: by instance if it had several parts."""
        if len(status.parts) > 1:
            each = keyed_by_worker(
                (p.worker, self._one(p.body or EMPTY, p.fault, p.worker, p.resources))
                for p in status.parts
            )
            return GATHERED, oldpack.encode(each)
        body = status.parts[0].body if status.parts else None
        if body is not None and body.dialect == NAME:
            said = message_of(body, REP)
            return said.status, said.payload
        return self._dressed(body or EMPTY, status.fault, "")


_STANDINGS: Final[
    dict[RequestKind, Callable[[ZssReplies, SendStatus, ZssOpenRequest, float], ZssMessage]]
] = {
    RequestKind.RESULT: ZssReplies._result,
    RequestKind.CANCEL: ZssReplies._cancelled,
}
