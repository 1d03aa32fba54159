"""The JSON bodies of NFP: what the broker reads of them, and those it writes itself.

Reading is partial and typed, because bodies pass through unread where they can. Field names and
their order are NorFab's; what we add (`error`, `code`) comes last, where its peers do not look.
"""

import json
import re
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from dragoman.dialects.nfp.body_codec import task_fault, write
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault
from dragoman.model.record import Record

#: How a worker says that it returns a job unrun, in the body of a 404.
HANDED_BACK: Final = "HANDED_BACK"
_ARRAY: Final = msgspec.Raw(b"[]")
_OBJECT: Final = msgspec.Raw(b"{}")
#: A number that NorFab's JSON reader may refuse although ours passes over it: no float holds it.
_HUGE: Final = re.compile(r"[eE]\+?\d{3}|\d{300}")


#: JSON has numbers of any length; the ledger has not.
_Number = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class PostHead(msgspec.Struct):
    """What the broker wants to know of a POST or MMI body."""

    task: str
    timeout: float | None = None
    args: msgspec.Raw = _ARRAY
    kwargs: msgspec.Raw = _OBJECT
    priority: _Number = 0
    key: str = ""


class OpenBody(msgspec.Struct):
    """What a peer declares of itself in OPEN. Unknown members are for later versions."""

    agent: str = ""
    #: A client that takes results unasked, and a 202 for a job that is only queued.
    push: bool = False
    #: A worker that can be told to stop a job, and will say that it did.
    can_cancel: bool = False
    #: A worker that wants to hear the attempt's number, and repeats it in its reports.
    attempts: bool = False
    credit: _Number | None = None
    #: The jobs the worker can still answer for.
    holds: list[str] | None = None
    labels: dict[str, str] = {}
    resources: list[str] = []
    #: How often a broker beats and wants to hear a beat; `hold` silent seconds make either lost.
    beat_every: float | None = None
    hold: float | None = None


class Subscription(msgspec.Struct):
    """The body of a GET to the events service."""

    topics: list[str] = msgspec.field(default_factory=lambda: ["*"])
    after: int = 0


class InputRequest(msgspec.Struct):
    """A worker's question."""

    id: str = ""
    question: Any = None


class _Extras(msgspec.Struct):
    input_request: InputRequest | None = None


class EventHead(msgspec.Struct):
    """What the broker wants to know of an EVENT body."""

    event_type: str = ""
    extras: _Extras | None = None

    @property
    def input_request(self) -> InputRequest | None:
        """The question in it, if it asks one."""
        return self.extras.input_request if self.extras else None


class _ResultHead(msgspec.Struct):
    failed: bool | None = False
    errors: Any = None
    messages: Any = None


class _StatusHead(msgspec.Struct):
    status: str = ""
    error: str = ""


class _Resources(msgspec.Struct):
    resources: list[str] = []


class _Clean(msgspec.Struct):
    clean: bool = False


_POST: Final = msgspec.json.Decoder(PostHead)
_OPEN: Final = msgspec.json.Decoder(OpenBody)
_EVENT: Final = msgspec.json.Decoder(EventHead)
_RESULT: Final = msgspec.json.Decoder(dict[str, _ResultHead])
_STATUS: Final = msgspec.json.Decoder(_StatusHead)
_RESOURCES: Final = msgspec.json.Decoder(_Resources)
_CLEAN: Final = msgspec.json.Decoder(_Clean)
_SUBSCRIPTION: Final = msgspec.json.Decoder(Subscription)
_KEYED: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode: Final = msgspec.json.encode
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


def read_post(body: bytes) -> PostHead:
    """Check a request body as strictly as NorFab's worker does, which dies of a bad one.

    Raises ValueError with a sentence for the client.
    """
    try:
        text = body.decode()
        head = _POST.decode(text)
        if _HUGE.search(text):
            json.loads(text, parse_int=_finite, parse_float=_finite)
    except _UNREADABLE as why:
        raise ValueError(f"the body must be a JSON object with a task: {why}") from None
    if bytes(head.args)[:1] not in b"[n" or bytes(head.kwargs)[:1] not in b"{n":
        raise ValueError("args must be a JSON array and kwargs a JSON object")
    return head


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise ValueError(f"the number {text[:20]}... is too large")
    return number


def read_open(body: bytes) -> OpenBody:
    """Read a declaration; an opaque or damaged one declares nothing."""
    try:
        return _OPEN.decode(body)
    except _UNREADABLE:
        return OpenBody()


def read_event(body: bytes) -> EventHead:
    """Read the head of an event; one that is not NorFab's is plain progress."""
    try:
        return _EVENT.decode(body)
    except _UNREADABLE:
        return EventHead()


def read_fault(result: bytes) -> Fault | None:
    """Tell whether a result says that the task failed; an opaque result does not."""
    try:
        said = _RESULT.decode(result)
    except _UNREADABLE:
        return None
    for head in said.values():
        if head.failed:
            return task_fault(head.errors, head.messages)
    return None


def read_status(body: bytes) -> str:
    """Return what a report says of itself, in a word or a sentence."""
    try:
        said = _STATUS.decode(body)
    except _UNREADABLE:
        return ""
    return said.error or said.status


def is_clean(body: bytes | None) -> bool:
    """Tell whether a DISCONNECT says that the worker stopped in good order."""
    try:
        return bool(body) and _CLEAN.decode(body or b"").clean
    except _UNREADABLE:
        return False


def read_subscription(body: bytes) -> Subscription:
    """Read which events are wanted; nothing said: all that are still to come. Raises ValueError."""
    try:
        return _SUBSCRIPTION.decode(body) if body else Subscription()
    except _UNREADABLE as why:
        raise ValueError(f"a subscription is a JSON object of topics and after: {why}") from None


def rekey(result: bytes, old: str, new: str) -> bytes:
    """Give a result to another worker name; the rest stays byte for byte."""
    try:
        said = _KEYED.decode(result)
    except _UNREADABLE:
        return result
    return msgspec.json.encode({new if name == old else name: raw for name, raw in said.items()})


def owner(result: bytes) -> str:
    """Return the worker name a result is keyed by; empty when it has none."""
    try:
        return next(iter(_KEYED.decode(result)), "")
    except _UNREADABLE:
        return ""


def with_timeout(call: bytes, timeout: float) -> bytes:
    """Say how long a call may take, unless it says so itself: NorFab would assume a minute."""
    said = _KEYED.decode(call)
    said.setdefault("timeout", msgspec.Raw(_encode(round(timeout, 3))))
    return _encode(said)


def with_resources(call: bytes, resources: tuple[str, ...]) -> bytes:
    """Say which resources a call is for, to workers that look for it; NorFab's do not."""
    return _encode(_KEYED.decode(call) | {"resources": resources})


def read_resources(call: bytes) -> tuple[str, ...]:
    """Return which resources a call is for, if it says so."""
    try:
        return tuple(_RESOURCES.decode(call).resources)
    except _UNREADABLE:
        return ()


def with_terms(call: bytes, priority: int, key: str) -> bytes:
    """Add what our own broker reads besides the call."""
    return _encode(_KEYED.decode(call) | {"priority": priority, "key": key})


def dispatched(workers: tuple[str, ...], uuid: str, target: str, service: str) -> bytes:
    """Write a 202 body: these workers have it."""
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
    """Write a 4xx or 5xx body. NorFab's client shows `error`, its shell `errors`."""
    words = fault.message or fault.code.value
    return _encode(
        {
            "workers": None,
            "uuid": uuid,
            "target": target,
            "status": "FAILED",
            "service": service,
            "errors": [words],
            "error": words,
            "code": fault.code.value,
        }
    )


class _Question(msgspec.Struct):
    input_request: msgspec.Raw


class _QuestionEvent(msgspec.Struct):
    extras: _Question


def question(event: bytes) -> dict[str, Any]:
    """Take the question out of an event, as the member that a 102 body repeats it in."""
    try:
        raw = msgspec.json.decode(event, type=_QuestionEvent).extras.input_request
    except _UNREADABLE:
        return {}
    return {"input_request": raw}


def standing(worker: str | None, uuid: str, service: str, status: str, **more: Any) -> bytes:
    """Write a 201, 300, 102, 404 or cancel body: how it stands with this worker."""
    return write({"worker": worker, "uuid": uuid, "service": service, "status": status, **more})


def accepted(worker: str, uuid: str, service: str) -> bytes:
    """Write a 201 body. Its fields stand in another order than those of a 300."""
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
    extras: dict[str, Any] | None = None,
) -> bytes:
    """Write an EVENT body."""
    said: dict[str, Any] = {
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
        said["extras"] = extras
    return write(said)


def offered(seq: int, at: float, topic: str, said: object) -> bytes:
    """Write the body of an event that is offered to a subscriber."""
    return _encode({"seq": seq, "at": at, "topic": topic, "event": said})


def raw_json(body: bytes) -> object:
    """Take a worker's own event as it is; what is no JSON is told as text."""
    try:
        msgspec.json.decode(body)
    except _UNREADABLE:
        return body.decode(errors="backslashreplace")
    return msgspec.Raw(body)


def record_object(record: Record) -> dict[str, Any]:
    """Write a record as an object, without what does not apply."""
    said = {f.name: getattr(record, f.name) for f in fields(record)}
    return {name: value for name, value in said.items() if value not in ("", 0)}


def error_object(fault: Fault) -> dict[str, Any]:
    """Say why a management call has no answer."""
    words = fault.message or fault.code.value
    return {"status": "FAILED", "errors": [words], "error": words, "code": fault.code.value}


def input_answer(request: str, answer: Any) -> bytes:
    """Write the body of a PUT that answers a worker's question."""
    return write({"input_id": request, "value": answer, "cancel": False, "metadata": {}})


def timestamp(now: float) -> str:
    """Write an instant as NorFab's events do, in UTC."""
    text = datetime.fromtimestamp(now, UTC).strftime("%d-%b-%Y %H:%M:%S.%f")
    return text[:-3]


def to_json(said: Any) -> bytes:
    """Write anything a management task returned; what has no JSON form is written as text."""
    try:
        return write(said)
    except Unmappable:
        return _encode(str(said))
