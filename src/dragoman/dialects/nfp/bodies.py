"""The JSON bodies of NFP: the fields that the broker reads, and the bodies that it writes.

The broker decodes only the fields it needs, because bodies pass through. Field names and their
order are NorFab's. Our additions (`error`, `code`) come last; NorFab's peers ignore them.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from dragoman.dialects.nfp.body_codec import task_fault, write
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault

#: The status in the body of a 404 with which a worker returns a job unrun.
HANDED_BACK: Final = "HANDED_BACK"
_ARRAY: Final = msgspec.Raw(b"[]")
_OBJECT: Final = msgspec.Raw(b"{}")
#: Numbers beyond a float have a large exponent or many digits. NorFab's JSON reader may refuse
#: them, ours skips them. With every digit as 0, finding them is three plain searches; a regular
#: expression took 0.7 s for 13 MB.
_DIGITS_AS_ZERO: Final = bytes.maketrans(b"123456789E", b"000000000e")
_MANY_DIGITS: Final = b"0" * 300


#: The ledger holds 32-bit numbers; JSON has numbers of any length.
_Number = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class PostHead(msgspec.Struct):
    """The fields that the broker reads from a POST or MMI body."""

    task: str
    timeout: float | None = None
    args: msgspec.Raw = _ARRAY
    kwargs: msgspec.Raw = _OBJECT
    priority: _Number = 0
    key: str = ""
    options: dict[str, object] | None = None


class OpenBody(msgspec.Struct):
    """What a peer declares in OPEN. Unknown members belong to later versions."""

    agent: str = ""
    #: True: the client accepts results without a GET, and a 202 for a queued job.
    #: False: it is strictly synchronous. None: its variant decides.
    push: bool | None = None
    #: The worker can stop a job, and confirms that it did.
    can_cancel: bool = False
    #: The worker wants the attempt number, and repeats it in its reports.
    attempts: bool = False
    credit: _Number | None = None
    #: The jobs that the worker still holds or has results of.
    holds: list[str] | None = None
    labels: dict[str, str] = {}
    resources: list[str] = []
    #: Heartbeat interval of the broker; a peer is lost after `hold` seconds of silence.
    beat_every: float | None = None
    hold: float | None = None


class Subscription(msgspec.Struct):
    """The body of a GET to the events service."""

    topics: list[str] = msgspec.field(default_factory=lambda: ["*"])
    after: int = 0


class InputRequest(msgspec.Struct):
    """A worker's question."""

    id: str = ""
    question: object = None


class _Extras(msgspec.Struct):
    input_request: InputRequest | None = None


class EventHead(msgspec.Struct):
    """The fields that the broker reads from an EVENT body."""

    event_type: str = ""
    extras: _Extras | None = None

    @property
    def input_request(self) -> InputRequest | None:
        """The question in the event, if there is one."""
        return self.extras.input_request if self.extras else None


class _ResultHead(msgspec.Struct):
    failed: bool | None = False
    errors: object = None
    messages: object = None


class _StatusHead(msgspec.Struct):
    status: str = ""
    error: str = ""


class _Resources(msgspec.Struct):
    resources: list[str] = []


class _Clean(msgspec.Struct):
    clean: bool = False


class _Reason(msgspec.Struct):
    reason: str = ""


_POST: Final = msgspec.json.Decoder(PostHead)
_OPEN: Final = msgspec.json.Decoder(OpenBody)
_EVENT: Final = msgspec.json.Decoder(EventHead)
_RESULT: Final = msgspec.json.Decoder(dict[str, _ResultHead])
_STATUS: Final = msgspec.json.Decoder(_StatusHead)
_RESOURCES: Final = msgspec.json.Decoder(_Resources)
_CLEAN: Final = msgspec.json.Decoder(_Clean)
_REASON: Final = msgspec.json.Decoder(_Reason)
_SUBSCRIPTION: Final = msgspec.json.Decoder(Subscription)
_KEYED: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode: Final = msgspec.json.encode
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


def read_post(body: bytes) -> PostHead:
    """Check a request body as strictly as NorFab's worker, which stops on a bad one.

    Raises ValueError with a text for the client.
    """
    try:
        text = body.decode()
        head = _POST.decode(text)
        if _may_be_huge(body):
            json.loads(text, parse_int=_finite, parse_float=_finite)
    except _UNREADABLE as error:
        raise ValueError(f"the body must be a JSON object with a task: {error}") from None
    if bytes(head.args)[:1] not in b"[n" or bytes(head.kwargs)[:1] not in b"{n":
        raise ValueError("args must be a JSON array and kwargs a JSON object")
    return head


def is_call(body: bytes) -> bool:
    """Return whether NorFab's worker can read a request body."""
    try:
        read_post(body)
    except ValueError:
        return False
    return True


def _may_be_huge(body: bytes) -> bool:
    """Return whether a body may hold a number beyond a float."""
    zeros = body.translate(_DIGITS_AS_ZERO)
    return b"e000" in zeros or b"e+000" in zeros or _MANY_DIGITS in zeros


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise ValueError(f"the number {text[:20]}... is too large")
    return number


def read_open(body: bytes) -> OpenBody:
    """Decode an OPEN body. One that cannot be read declares nothing."""
    try:
        return _OPEN.decode(body)
    except _UNREADABLE:
        return OpenBody()


def read_event(body: bytes) -> EventHead:
    """Decode the head of an event. One that is not NorFab's is progress."""
    try:
        return _EVENT.decode(body)
    except _UNREADABLE:
        return EventHead()


def read_fault(result: bytes) -> Fault | None:
    """Return the fault in a result. A result that cannot be read has none."""
    try:
        heads = _RESULT.decode(result)
    except _UNREADABLE:
        return None
    for head in heads.values():
        if head.failed:
            return task_fault(head.errors, head.messages)
    return None


def read_status(body: bytes) -> str:
    """Return the error text of a report, or its status."""
    try:
        head = _STATUS.decode(body)
    except _UNREADABLE:
        return ""
    return head.error or head.status


def is_clean(body: bytes | None) -> bool:
    """Return whether a DISCONNECT reports a clean stop of the worker."""
    try:
        return bool(body) and _CLEAN.decode(body or b"").clean
    except _UNREADABLE:
        return False


def read_reason(body: bytes | None) -> str:
    """Return the reason in a DISCONNECT of a Dragoman broker; empty if it has none."""
    try:
        return _REASON.decode(body).reason if body else ""
    except _UNREADABLE:
        return ""


def read_subscription(body: bytes) -> Subscription:
    """Decode a subscription. An empty body means all future events. Raises ValueError."""
    try:
        return _SUBSCRIPTION.decode(body) if body else Subscription()
    except _UNREADABLE as error:
        raise ValueError(f"a subscription is a JSON object of topics and after: {error}") from None


def rekey(result: bytes, old: str, new: str) -> bytes:
    """Key a result by another worker name; all else stays byte for byte."""
    try:
        results = _KEYED.decode(result)
    except _UNREADABLE:
        return result
    renamed = {new if name == old else name: raw for name, raw in results.items()}
    return msgspec.json.encode(renamed)


def owner(result: bytes) -> str:
    """Return the worker name that a result is keyed by; empty if there is none."""
    try:
        return next(iter(_KEYED.decode(result)), "")
    except _UNREADABLE:
        return ""


def with_timeout(call: bytes, timeout: float) -> bytes:
    """Add a timeout to a call that has none. NorFab would assume a minute."""
    body = _KEYED.decode(call)
    body.setdefault("timeout", msgspec.Raw(_encode(round(timeout, 3))))
    return _encode(body)


def with_resources(call: bytes, resources: tuple[str, ...]) -> bytes:
    """Add the target resources to a call. NorFab's workers ignore them."""
    return _encode(_KEYED.decode(call) | {"resources": resources})


def read_resources(call: bytes) -> tuple[str, ...]:
    """Return the target resources of a call, if it names some."""
    try:
        return tuple(_RESOURCES.decode(call).resources)
    except _UNREADABLE:
        return ()


def with_terms(call: bytes, priority: int, key: str, options: Mapping[str, object]) -> bytes:
    """Add the fields that only our own broker reads."""
    terms = {"priority": priority, "key": key} | ({"options": options} if options else {})
    return _encode(_KEYED.decode(call) | terms)


def dispatched(workers: tuple[str, ...], uuid: str, target: str, service: str) -> bytes:
    """Encode a 202 body: these workers have the job."""
    return _encode(
        {
            "workers": workers,
            "uuid": uuid,
            "target": target,
            "status": "DISPATCHED" if workers else "QUEUED",
            "service": service,
        }
    )


def failed(uuid: str, target: str, service: str, fault: Fault) -> bytes:
    """Encode a 4xx or 5xx body. NorFab's client shows `error`, its shell `errors`."""
    text = fault.message or fault.code.value
    return _encode(
        {
            "workers": None,
            "uuid": uuid,
            "target": target,
            "status": "FAILED",
            "service": service,
            "errors": [text],
            "error": text,
            "code": fault.code.value,
        }
    )


class _Question(msgspec.Struct):
    input_request: msgspec.Raw


class _QuestionEvent(msgspec.Struct):
    extras: _Question


def question(event: bytes) -> dict[str, object]:
    """Return the question of an event, as the field that a 102 body repeats."""
    try:
        raw = msgspec.json.decode(event, type=_QuestionEvent).extras.input_request
    except _UNREADABLE:
        return {}
    return {"input_request": raw}


def job_status(worker: str | None, uuid: str, service: str, status: str, **more: object) -> bytes:
    """Encode the body of a 300, 102, 404 or cancel answer: the job's status at a worker."""
    return write({"worker": worker, "uuid": uuid, "service": service, "status": status, **more})


def accepted(worker: str, uuid: str, service: str) -> bytes:
    """Encode a 201 body. Its field order differs from a 300."""
    return _encode({"worker": worker, "uuid": uuid, "status": "ACCEPTED", "service": service})


def event(
    worker: str,
    service: str,
    uuid: str,
    message: str,
    timestamp: str,
    *,
    event_type: str = "progress",
    status: str = "running",
    task: str | None = None,
    extras: dict[str, object] | None = None,
) -> bytes:
    """Encode an EVENT body."""
    body: dict[str, object] = {
        "worker": worker,
        "service": service,
        "uuid": uuid,
        "event_type": event_type,
        "message": message,
        "task": task,
        "status": status,
        "resource": [],
        "severity": "INFO",
        "timestamp": timestamp,
    }
    if extras:
        body["extras"] = extras
    return write(body)


def subscribed_event(seq: int, at: float, topic: str, content: object) -> bytes:
    """Encode the body of an event for a subscriber."""
    return _encode({"seq": seq, "at": at, "topic": topic, "event": content})


def raw_json(body: bytes) -> object:
    """Return a worker's event unchanged, or as text if it is not JSON."""
    try:
        msgspec.json.decode(body)
    except _UNREADABLE:
        return body.decode(errors="backslashreplace")
    return msgspec.Raw(body)


def error_object(fault: Fault) -> dict[str, object]:
    """Return the body of a failed management call."""
    text = fault.message or fault.code.value
    return {"status": "FAILED", "errors": [text], "error": text, "code": fault.code.value}


def input_answer(request: str, answer: object) -> bytes:
    """Encode the body of a PUT that answers a worker's question."""
    return write({"input_id": request, "value": answer, "cancel": False, "metadata": {}})


def timestamp(now: float) -> str:
    """Format a time as NorFab's events do, in UTC."""
    text = datetime.fromtimestamp(now, UTC).strftime("%d-%b-%Y %H:%M:%S.%f")
    return text[:-3]


def to_json(value: object) -> bytes:
    """Encode the result of a management task, as text if it has no JSON form."""
    try:
        return write(value)
    except Unmappable:
        return _encode(str(value))
