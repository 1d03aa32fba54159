"""Every captured message both ways, every rejected one, and any bytes at all."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.memo01.wire import (
    MAX_NAME_BYTES,
    MAX_SERVICES,
    MemoDisconnect,
    MemoHeartbeat,
    MemoJob,
    MemoMessage,
    MemoReady,
    MemoResult,
    decode,
    encode,
    in_order,
)

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "memo01" / "vectors.json").read_text()
)
#: Upstream rejects these; the text sets no order, so this broker takes them.
ANY_ORDER = {
    "rejected: READY unsorted list",
    "rejected: READY same length unsorted",
    "rejected: READY duplicate name",
}
REJECTED = [
    v for v in VECTORS if v["label"].startswith("rejected:") and v["label"] not in ANY_ORDER
]
#: Well-formed, but not something a broker takes from a peer: the side's business.
OF_THE_SIDE = {
    "rejected: JOB with an id",
    "rejected: RESULT empty id",
    "rejected: DISCONNECT sent to broker",
}
#: Messages of the protocol itself: not of the transport, not of MemoDB's data model.
SPOKEN = [
    v
    for v in VECTORS
    if v["direction"] in ("worker->broker", "client->broker", "broker->worker", "broker->client")
]
#: The worker ID that upstream gave while the vectors were captured.
CAUGHT = bytes.fromhex("e525c3ad")
DETERMINISTIC = [v for v in SPOKEN if not v["label"].startswith(("lenient:", "fatal:"))]


def named(vector: dict[str, Any]) -> str:
    return str(vector["label"])


@pytest.mark.parametrize("vector", SPOKEN, ids=named)
def test_what_peers_said_is_read(vector: dict[str, Any]) -> None:
    decode(bytes.fromhex(vector["message_hex"]))


#: The captured RESULT with an explicit false: we read it, and write it in its shorter form.
@pytest.mark.parametrize(
    "vector", [v for v in DETERMINISTIC if "flag false" not in v["label"]], ids=named
)
def test_what_is_read_is_written_byte_for_byte(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["message_hex"])
    assert encode(decode(raw)) == raw


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (
            "READY, two services (sorted: shorter name first)",
            MemoReady(("alive.tv", "alive.interpret")),
        ),
        ("JOB with an opaque payload", MemoJob(CAUGHT, "alive.interpret", 1000, b"\xde\xad")),
        ("RESULT with the optional flag false", MemoResult(CAUGHT, b"\1\2", False)),
        ("RESULT, worker is leaving (flag true)", MemoResult(CAUGHT, b"\0", True)),
        ("HEARTBEAT after the worker was idle", MemoHeartbeat(CAUGHT)),
        ("DISCONNECT for an id of another length (echoed)", MemoDisconnect(b"long-identifier")),
        ("lenient: indefinite-length array, HEARTBEAT", MemoHeartbeat(b"abcd")),
        ("lenient: type in nine bytes, HEARTBEAT", MemoHeartbeat(b"abcd")),
        ("lenient: indefinite-length id, HEARTBEAT", MemoHeartbeat(b"abcd")),
        ("fatal: JOB timeout above 2^63-1", MemoJob(b"", "svc", 2**64 - 1)),
    ],
)
def test_a_message_means_what_its_label_says(label: str, message: MemoMessage) -> None:
    (raw,) = [bytes.fromhex(v["message_hex"]) for v in VECTORS if v["label"] == label]
    assert decode(raw) == message


@pytest.mark.parametrize(
    "vector", [v for v in REJECTED if v["label"] not in OF_THE_SIDE], ids=named
)
def test_what_upstream_rejects_is_malformed(vector: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        decode(bytes.fromhex(vector["message_hex"]))


@pytest.mark.parametrize(
    "raw",
    [
        b"\x81" * 20_000 + b"\x00",
        b"\x83fmemo01\x04" + b"\x81" * 20_000,
        b"\x9f" * 20_000,
        b"\xa1\x00" * 20_000,
        b"\xc0" * 20_000,
        bytes.fromhex("9bffffffffffffffff"),
        bytes.fromhex("83666d656d6f3031045bffffffffffffffff"),
        bytes.fromhex("83666d656d6f3031c241044461626364"),  # the type as a big number
        bytes.fromhex("84666d656d6f30310140d81c816161"),  # a shared list
        bytes.fromhex("85666d656d6f303102406373766363c2490100000000000000"),
        bytes.fromhex("85666d656d6f3031024060191388"),  # a JOB for the service without a name
        bytes.fromhex("85666d656d6f3031024063737663f5"),  # a bool is no timeout
        b"\x83fmemo01\xf5D1234",  # nor a message type
    ],
)
def test_hostile_headers_are_malformed_and_nothing_worse(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode(raw)


def test_a_ready_is_bounded() -> None:
    names = in_order(tuple(f"s{n}" for n in range(MAX_SERVICES)))
    assert decode(encode(MemoReady(names))) == MemoReady(names)
    for too_much in (in_order((*names, "one-more")), ("x" * (MAX_NAME_BYTES + 1),)):
        with pytest.raises(MalformedMessage):
            decode(encode(MemoReady(too_much)))


def test_names_are_put_in_upstreams_order() -> None:
    assert in_order(("bb", "a", "ab", "c", "a", "é")) == ("a", "c", "ab", "bb", "é")
    assert decode(encode(MemoReady(in_order(("bb", "a", "é"))))) == MemoReady(("a", "bb", "é"))


names = st.text(min_size=1, max_size=20).filter(lambda s: s.isprintable())
ids = st.binary(min_size=1, max_size=20)
payloads = st.binary(max_size=100)
messages: st.SearchStrategy[MemoMessage] = st.one_of(
    st.builds(MemoReady, st.lists(names, max_size=5).map(lambda n: in_order(tuple(n)))),
    st.builds(MemoJob, ids | st.just(b""), names, st.integers(-(2**64), 2**64 - 1), payloads),
    st.builds(MemoResult, ids | st.just(b""), payloads, st.booleans()),
    st.builds(MemoHeartbeat, ids),
    st.builds(MemoDisconnect, ids | st.just(b"")),
)


@given(messages)
def test_every_message_comes_back_as_it_was_written(message: MemoMessage) -> None:
    assert decode(encode(message)) == message


@given(messages)
def test_the_header_is_deterministic_cbor(message: MemoMessage) -> None:
    raw = encode(message)
    assert raw.startswith(cbor2.dumps(cbor2.loads(raw), canonical=True))


@given(messages, st.data())
def test_a_message_cut_short_is_malformed_or_has_a_shorter_payload(
    message: MemoMessage, data: st.DataObject
) -> None:
    raw = encode(message)
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    try:
        found = decode(cut)
    except MalformedMessage:
        return
    assert isinstance(found, MemoJob | MemoResult)
    assert isinstance(message, MemoJob | MemoResult)
    assert message.payload.startswith(found.payload)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.binary(max_size=60) | anything.map(cbor2.dumps))
def test_any_bytes_are_a_message_or_malformed(raw: bytes) -> None:
    with suppress(MalformedMessage):
        assert decode(raw)


@given(st.integers(1, 6), anything, st.lists(anything, max_size=3), payloads)
def test_any_header_is_a_message_or_malformed(
    kind: int, id_: Any, rest: list[Any], payload: bytes
) -> None:
    try:
        message = decode(cbor2.dumps(["memo01", kind, id_, *rest]) + payload)
    except MalformedMessage:
        return
    assert decode(encode(message)) == message


def test_ready_names_services_in_any_order_and_any_number_of_times() -> None:
    names = ["longer", "b", "a", "b"]
    assert decode(cbor2.dumps(["memo01", 1, b"", names])) == MemoReady(("a", "b", "longer"))
