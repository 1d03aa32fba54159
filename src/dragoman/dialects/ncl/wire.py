"""Subjects, metadata and typed messages: the stateless codec of NCL.

`encode` and `decode` convert between a payload with metadata and a NATS body. Sides and transport
exchange frames `[body, headers, reply]`: the NATS body, its headers as compact JSON, and the reply
subject. Headers and reply may be empty. Malformed bytes raise `MalformedMessage`.
"""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl.envelope import BAD_JSON, dump, seal, seal_json, unseal
from dragoman.dialects.ncl.messages import NAMES, TYPES
from dragoman.dialects.ncl.models import WireObject
from dragoman.model.value import value

# --- subjects -----------------------------------------------------------------------------------

ROOT: Final = "bacalhau.global.compute"
CTRL: Final = "out.ctrl"
OUT_MSGS: Final = "out.msgs"
REQUESTS: Final = "out.requests"
IN_MSGS: Final = "in.msgs"
HEARTBEAT: Final = "out.heartbeat"
MANAGEMENT: Final = "node.management"
REGISTER: Final = "RegisterNode/v1"
LOGS: Final = "ExecutionLogs/v1"

_FORBIDDEN: Final = frozenset(" .*>\0\t\r\n\f")


def is_node_id(text: str) -> bool:
    """Whether a text can be a node id: one plain token of a subject."""
    return bool(text) and len(text) <= 255 and text.isprintable() and _FORBIDDEN.isdisjoint(text)


def compute_subject(node: str, channel: str) -> str:
    """Return the subject of a node's channel; node `*` means all nodes."""
    return f"{ROOT}.{node}.{channel}"


def logs_subject(node: str) -> str:
    """Return the subject of a node's log requests."""
    return f"node.compute.{node}.{LOGS}"


@lru_cache(maxsize=4096)
def parse_subject(subject: str) -> tuple[str, str]:
    """Split a subject into (channel, node); both are empty for a foreign subject.

    Channels are the constants above. A `node.management` subject has the channel
    `node.management.<method>`.
    """
    parts = subject.split(".")
    if subject.startswith(ROOT + ".") and len(parts) == 6:
        return f"{parts[4]}.{parts[5]}", parts[3]
    if len(parts) == 4 and parts[0] == "node" and parts[1] in ("management", "compute"):
        kind = MANAGEMENT + "." if parts[1] == "management" else ""
        return kind + parts[3], parts[2]
    return "", ""


# --- metadata -----------------------------------------------------------------------------------

TYPE: Final = "Bacalhau-Type"
ENCODING: Final = "Bacalhau-PayloadEncoding"
SOURCE: Final = "Bacalhau-Source"
EVENT_TIME: Final = "Bacalhau-EventTime"
SEQ: Final = "Bacalhau-SeqNum"
MESSAGE_ID: Final = "Bacalhau-MessageID"
SUBJECT: Final = "Bacalhau-Subject"
STATUS_CODE: Final = "Bacalhau-StatusCode"
ERROR_CODE: Final = "Bacalhau-ErrorCode"
_OLD_TYPE: Final = "Type"
_OLD_ENCODING: Final = "PayloadEncoding"


def metadata(payload: WireObject, source: str, at: float, **more: str) -> dict[str, str]:
    """Return the metadata that every message has; `more` is keyed by the constants above."""
    name = NAMES[type(payload)]
    return {
        TYPE: name,
        _OLD_TYPE: name,
        ENCODING: "json",
        _OLD_ENCODING: "json",
        SOURCE: source,
        EVENT_TIME: str(nanoseconds(at)),
        **more,
    }


def data_metadata(
    payload: WireObject, source: str, at: float, seq: int, subject: str
) -> dict[str, str]:
    """Return the metadata of a data message. Nodes leave `subject` empty."""
    more = {SEQ: str(seq), MESSAGE_ID: f"seq-{seq}"}
    if subject:
        more[SUBJECT] = subject
    return metadata(payload, source, at, **more)


def nanoseconds(at: float) -> int:
    """Convert a time to the wire's integer nanoseconds."""
    return round(at * 1e6) * 1000


# --- messages -----------------------------------------------------------------------------------


@value
class NclMessage:
    """A payload with its metadata."""

    payload: WireObject
    metadata: Mapping[str, str]

    @property
    def source(self) -> str:
        """The sender named in the metadata; empty if missing."""
        return self.metadata.get(SOURCE, "")

    @property
    def seq(self) -> int:
        """Its position in the sender's ledger; 0 if missing or unreadable."""
        text = self.metadata.get(SEQ, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0


_decoders: Final = {kind: msgspec.json.Decoder(kind) for kind in NAMES}


def encode(payload: WireObject, pairs: Mapping[str, str]) -> bytes:
    """Write a message in an envelope of version 1."""
    return seal(pairs, dump(payload))


def frames(payload: WireObject, pairs: Mapping[str, str], reply: str = "") -> list[bytes]:
    """Write a message as frames: body, the same metadata as headers, reply subject."""
    headers = dump({key: pairs[key] for key in sorted(pairs)})
    return [seal_json(headers, dump(payload)), headers, reply.encode()]


def decode(data: bytes) -> NclMessage:
    """Read a message. Checks run in order: envelope, encoding, type, payload."""
    found = unseal(data)
    pairs = found.metadata
    encoding = pairs.get(ENCODING) or pairs.get(_OLD_ENCODING) or ""
    if encoding != "json":
        raise _unreadable(f"unsupported payload encoding: {encoding}")
    name = pairs.get(TYPE) or pairs.get(_OLD_TYPE) or ""
    kind = TYPES.get(name)
    if kind is None:
        raise _unreadable(f"unsupported message type: {name}")
    return NclMessage(read_payload(kind, found.payload), pairs)


def _unreadable(reason: str) -> MalformedMessage:
    return MalformedMessage(f"failed to deserialize message payload: {reason}")


def read_payload(kind: type[WireObject], data: bytes) -> Any:
    """Read one JSON object, first strictly (fast), then tolerantly."""
    try:
        return _decoders[kind].decode(data)
    except BAD_JSON:
        pass
    try:
        loose = tolerate(kind, msgspec.json.decode(data))
        return msgspec.convert({} if loose is None else loose, kind)
    except BAD_JSON as error:
        raise _unreadable(f"failed to deserialize with encoding json: {error}") from None


def read_json(kind: type[WireObject], data: bytes) -> Any:
    """Read a bare JSON object that is not a message (a stored state, a legacy request)."""
    if kind not in _decoders:
        _decoders[kind] = msgspec.json.Decoder(kind)
    return read_payload(kind, data)


# --- acks, inboxes, headers ---------------------------------------------------------------------


def inbox_token(text: str) -> str:
    """Derive the 22 characters of an inbox from an id."""
    return sha256(text.encode()).hexdigest()[:22]


def is_ack(body: bytes) -> bool:
    """Distinguish an ack from a refusal. An empty body (no responders) is no ack."""
    if body == b"{}":
        return True
    try:
        found = msgspec.json.decode(body, type=dict[str, object])
    except BAD_JSON:
        return False
    return not found.get("error")


def header_of(headers: bytes, name: str) -> str:
    """Return one NATS header from the headers' JSON; empty if missing."""
    if not headers:
        return ""
    try:
        return msgspec.json.decode(headers, type=dict[str, str]).get(name, "")
    except BAD_JSON:
        return ""


# --- tolerance ----------------------------------------------------------------------------------


def tolerate(kind: object, found: object) -> object:
    """Convert decoded JSON to the member names of `kind`.

    As upstream reads it: member names match without regard to case, unknown members are dropped,
    and null becomes the empty value where a member does not allow null.
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        inner = [arm for arm in get_args(kind) if arm is not type(None)]
        return tolerate(inner[0], found) if len(inner) == 1 else found
    if origin is list and type(found) is list:
        return [tolerate(get_args(kind)[0], item) for item in found]
    if origin is dict and type(found) is dict:
        return {key: tolerate(get_args(kind)[1], item) for key, item in found.items()}
    if isinstance(kind, type) and issubclass(kind, WireObject) and type(found) is dict:
        return _members(kind, found)
    return found


def _members(kind: type[WireObject], found: dict[str, object]) -> dict[str, object]:
    names, out = _spellings(kind), {}
    for name, item in found.items():
        known = names.get(name.lower())
        if known is None:
            continue
        member, annotation, takes_null = known
        if item is not None or takes_null:
            out[member] = tolerate(annotation, item)
    return out


@lru_cache(maxsize=64)
def _spellings(kind: type[WireObject]) -> dict[str, tuple[str, object, bool]]:
    """Map each member's lower-case name to (name, annotation, whether it takes null)."""
    hints = {field.name: field.type for field in msgspec.structs.fields(kind)}
    return {name.lower(): (name, hint, _takes_null(hint)) for name, hint in hints.items()}


def _takes_null(hint: object) -> bool:
    return type(None) in get_args(hint) or hint is object
