"""Replies to ZSS clients: results, faults, parts of streams, and job states.

Each open request keeps the frames that its reply repeats. Clients open a connection per call, so
nothing is kept after the reply. A published client takes the first message for the reply. So only
a client whose address says `partial` gets parts.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

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

#: The status of a part gives its kind.
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
    """One request of a client, until its reply is sent."""

    __slots__ = ("is_acknowledged", "is_titanic", "message", "parts", "received_at", "wants_parts")

    def __init__(
        self,
        message: ZssMessage,
        received_at: float,
        wants_parts: bool = False,
        is_titanic: bool = False,
    ) -> None:
        #: Its protocol, request id, address and headers, without the payload.
        self.message = ZssMessage(
            REP, message.rid, message.address, message.headers, b"", b"", message.protocol
        )
        self.received_at = received_at
        self.wants_parts = wants_parts
        #: Acknowledged as soon as it is on disk; the client fetches the result later.
        self.is_titanic = is_titanic
        self.is_acknowledged = False
        #: The results so far, one per instance, of a request to several instances.
        self.parts: list[SendReply] = []


class ZssReplies:
    """The open requests of one front-end; writes the replies to them."""

    def __init__(self, codecs: BodyCodecs, traces: bool) -> None:
        self._codecs = codecs
        self._traces = traces
        self._requests: dict[JobId, dict[PeerId, ZssOpenRequest]] = {}
        self._status_requests: dict[tuple[PeerId, JobId, str], list[ZssOpenRequest]] = {}

    def __len__(self) -> int:
        return len(self._requests) + len(self._status_requests)

    def expect(self, job: JobId, client: PeerId, request: ZssOpenRequest) -> None:
        """Keep a request until its reply."""
        self._requests.setdefault(job, {})[client] = request

    def is_open(self, job: JobId, client: PeerId) -> bool:
        """Return whether a client's request has no reply yet."""
        return client in self._requests.get(job, ())

    def expect_status(
        self, job: JobId, client: PeerId, asked: RequestKind, request: ZssOpenRequest
    ) -> None:
        """Keep a question about a job until its answer."""
        self._status_requests.setdefault((client, job, asked), []).append(request)

    def received_at(self, job: JobId) -> float | None:
        """Return when the front-end received the request of a job; None if it did not."""
        clients = self._requests.get(job)
        return next(iter(clients.values())).received_at if clients else None

    # --- replies ----------------------------------------------------------------------------

    def reply(self, effect: SendReply, now: float) -> ZssMessage | None:
        """Write a reply or a part for a client; None if the client gets no message."""
        if effect.kind is ReplyKind.FINAL:
            return self._final(effect, self._close(effect, now), now)
        request = self._requests.get(effect.job, {}).get(effect.client)
        if request is None:
            return None
        if effect.kind is ReplyKind.PART:
            request.parts.append(effect)
            return None
        if request.is_titanic:
            return self._accepted(effect, request, now)
        return self._part(effect, request, now) if request.wants_parts else None

    def _close(self, effect: SendReply, now: float) -> ZssOpenRequest:
        """Remove a request. A refusal has no state and removes only the refused request."""
        clients = self._requests.get(effect.job, {})
        found = clients.pop(effect.client, None)
        if effect.state is not None or not clients:
            self._requests.pop(effect.job, None)
        if found is None:
            # The request went to an earlier broker process. The job id is its request id.
            address = write_address(effect.service.upper(), "")
            found = ZssOpenRequest(ZssMessage(REP, effect.job.encode(), address), now)
        return found

    def _accepted(
        self, effect: SendReply, request: ZssOpenRequest, now: float
    ) -> ZssMessage | None:
        """Acknowledge a TITANIC request, once: it is on disk."""
        if request.is_acknowledged:
            return None
        request.is_acknowledged = True
        content = {"job": effect.job, "state": "queued"}
        return self._write(request, b"202", oldpack.encode(content), now)

    def _final(self, effect: SendReply, request: ZssOpenRequest, now: float) -> ZssMessage | None:
        if request.is_titanic and request.is_acknowledged:
            return None
        if request.parts:
            each = keyed_by_worker(
                (p.worker, self._one(p.body, p.fault, p.worker, p.resources)) for p in request.parts
            )
            return self._write(request, GATHERED, oldpack.encode(each), now)
        if effect.body.dialect == NAME:
            reply = self._passed_through(effect.body, request, now)
        else:
            status, payload = self._converted(effect.body, effect.fault, effect.worker)
            reply = self._write(request, status, payload, now)
        return self._with_worker(reply, effect) if request.wants_parts else reply

    def _with_worker(self, m: ZssMessage, effect: SendReply) -> ZssMessage:
        """Name the instance in the address, for clients that read parts."""
        origin: dict[str, object] = {"worker": effect.worker}
        origin |= {"resources": list(effect.resources)} if effect.resources else {}
        # A question from another dialect has no name; the job id stands for it.
        extra: dict[str, object] = {"request": effect.job} if m.kind == PRT else {}
        try:
            address = oldpack.encode(extra | address_map(m.address) | origin)
        except (MalformedMessage, Unmappable):
            # The service's address is unreadable or has no form here: replace it.
            address = oldpack.encode({"sid": effect.service.upper()} | extra | origin)
        return replace(m, address=address)

    def _passed_through(self, body: Body, request: ZssOpenRequest, now: float) -> ZssMessage:
        """Return a ZSS service's message byte for byte; only the time of sending is added."""
        protocol, rid, address, headers, status, payload = body.parts
        original = request.message
        headers = headers or original.headers
        if self._traces:
            headers = with_time(headers, b"micro.bfes", now)
        return ZssMessage(
            REP,
            rid or original.rid,
            address or original.address,
            headers,
            status,
            payload,
            protocol or original.protocol,
        )

    def _converted(self, body: Body, fault: Fault | None, worker: str) -> tuple[bytes, bytes]:
        """Write a result of another dialect, or a fault, as status and payload."""
        try:
            answer = self._answer(body, worker)
        except Unmappable as error:
            unmappable = Fault(FaultCode.UNMAPPABLE, str(error))
            return answer_frames(Answer(fault=fault or unmappable))
        if fault is None:
            return answer_frames(answer)
        detail = answer.fault.message if answer.fault is not None else ""
        return answer_frames(Answer(fault=Fault(fault.code, detail or fault.message)))

    def _answer(self, body: Body, worker: str) -> Answer:
        if not body.dialect:
            return Answer()
        converted = convert_answer(self._codecs, body, NAME, worker)
        return self._codecs[NAME].read_answer(converted)

    def _one(
        self, body: Body, fault: Fault | None, worker: str, resources: tuple[str, ...]
    ) -> dict[str, object]:
        """Write one of several results, with its own status."""
        served = {"resources": list(resources), "worker": worker} if resources else {}
        if fault is None:
            try:
                answer = self._answer(body, worker)
                content = answer.value if answer.raw is None else answer.raw
                oldpack.encode(content)
                return {"status": 200, "payload": content, **served}
            except Unmappable as error:
                fault = Fault(FaultCode.UNMAPPABLE, str(error))
        status, payload = answer_frames(Answer(fault=fault))
        return {"status": int(status), "payload": oldpack.decode(payload), **served}

    def _part(self, effect: SendReply, request: ZssOpenRequest, now: float) -> ZssMessage | None:
        status = _PARTS.get(effect.kind)
        if status is None:
            return None
        if effect.body.dialect == NAME:
            part = self._passed_through(effect.body, request, now)
        elif status == b"202":
            content: dict[str, object] = {
                "state": effect.kind.value,
                "workers": list(effect.workers),
            }
            part = self._write(request, status, oldpack.encode(content), now)
        else:
            payload = self._converted(effect.body, None, effect.worker)[1]
            part = self._write(request, status, payload, now)
        return self._with_worker(replace(part, kind=PRT), effect)

    def _write(
        self, request: ZssOpenRequest, status: bytes, payload: bytes, now: float
    ) -> ZssMessage:
        """Write a reply of the broker itself; all other frames repeat the request."""
        headers = request.message.headers or NO_HEADERS
        if self._traces:
            headers = with_time(headers, b"micro.bfer", request.received_at)
            headers = with_time(headers, b"micro.bfes", now)
        return replace(request.message, headers=headers, status=status, payload=payload)

    # --- questions --------------------------------------------------------------------------

    def status(self, effect: SendStatus, now: float) -> ZssMessage | None:
        """Write the answer to a question about a job; None if no question is open."""
        if effect.asked is RequestKind.INPUT:
            return self._input_refused(effect, now)
        key = (effect.client, effect.job, effect.asked)
        waiting = self._status_requests.get(key)
        if not waiting:
            return None
        request = waiting.pop(0)
        if not waiting:
            del self._status_requests[key]
        return _STATUS_WRITERS[effect.asked](self, effect, request, now)

    def _input_refused(self, effect: SendStatus, now: float) -> ZssMessage:
        """Report that a part of a request has no job. Other parts get no answer."""
        fault = effect.fault or Fault(FaultCode.UNKNOWN_JOB)
        address = write_address("TITANIC", "INPUT")
        request = ZssOpenRequest(ZssMessage(PRT, effect.job.encode(), address), now)
        return replace(self._write(request, *answer_frames(Answer(fault=fault)), now), kind=PRT)

    def _unknown(self, effect: SendStatus, request: ZssOpenRequest, now: float) -> ZssMessage:
        fault = effect.fault or Fault(FaultCode.UNKNOWN_JOB)
        return self._write(request, *answer_frames(Answer(fault=fault)), now)

    def _cancelled(self, effect: SendStatus, request: ZssOpenRequest, now: float) -> ZssMessage:
        if effect.status is None:
            return self._unknown(effect, request, now)
        content = {"job": effect.job, "state": effect.status.state.value}
        if effect.fault is not None:
            content["detail"] = effect.fault.message
        return self._write(request, b"200", oldpack.encode(content), now)

    def _result(self, effect: SendStatus, request: ZssOpenRequest, now: float) -> ZssMessage:
        status = effect.status
        if status is None:
            return self._unknown(effect, request, now)
        if status.state not in FINAL:
            content = {"job": effect.job, "state": status.state.value}
            return self._write(request, b"202", oldpack.encode(content), now)
        return self._write(request, *self._ended(status), now)

    def _ended(self, status: JobStatus) -> tuple[bytes, bytes]:
        """Write the result of an ended job; several parts become a map by instance."""
        if len(status.parts) > 1:
            each = keyed_by_worker(
                (p.worker, self._one(p.body or EMPTY, p.fault, p.worker, p.resources))
                for p in status.parts
            )
            return GATHERED, oldpack.encode(each)
        body = status.parts[0].body if status.parts else None
        if body is not None and body.dialect == NAME:
            message = message_of(body, REP)
            return message.status, message.payload
        return self._converted(body or EMPTY, status.fault, "")


_STATUS_WRITERS: Final[
    dict[RequestKind, Callable[[ZssReplies, SendStatus, ZssOpenRequest, float], ZssMessage]]
] = {
    RequestKind.RESULT: ZssReplies._result,
    RequestKind.CANCEL: ZssReplies._cancelled,
}
