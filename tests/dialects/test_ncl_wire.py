"""Messages on the wire: every vector both ways, tolerance, subjects, metadata."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.ncl_vectors import BY_LABEL, body, enveloped, labels

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.envelope import seal
from dragoman.dialects.ncl.messages import TYPES, HeartbeatRequest, HeartbeatResponse
from dragoman.dialects.ncl.models import Resources

TYPED = enveloped("ctrl.", "data.", "req.", "legacy.", "capture/")
ACCEPTED = [la for la in labels("decode.") if BY_LABEL[la]["expect"] == "accept"]
REFUSED = [la for la in labels("decode.") if BY_LABEL[la]["expect"] == "reject"]


@pytest.mark.parametrize("label", TYPED)
def test_every_message_is_byte_equal_both_ways(label: str) -> None:
    message = wire.decode(body(label))
    assert wire.encode(message.payload, message.metadata) == body(label)


@pytest.mark.parametrize("label", ACCEPTED)
def test_what_upstream_reads_is_read(label: str) -> None:
    wire.decode(body(label))


@pytest.mark.parametrize("label", REFUSED)
def test_what_upstream_refuses_is_refused(label: str) -> None:
    with pytest.raises(MalformedMessage):
        wire.decode(body(label))


def test_other_spellings_and_unknown_members_do_not_matter() -> None:
    for label in ("decode.case-insensitive-fields", "decode.unknown-field"):
        assert wire.decode(body(label)).payload == HeartbeatResponse(19)


def test_a_null_payload_is_the_empty_one() -> None:
    assert wire.decode(body("decode.null-payload")).payload == HeartbeatResponse(0)


def test_null_members_are_the_empty_ones_at_any_depth() -> None:
    text = b'{"nodeid":null,"AVAILABLECAPACITY":{"cpu":null,"memory":5,"gpus":null}}'
    found = wire.read_payload(HeartbeatRequest, text)
    assert found == HeartbeatRequest("", Resources(Memory=5))


def test_an_unknown_type_is_named_as_upstream_names_it() -> None:
    with pytest.raises(MalformedMessage) as caught:
        wire.decode(body("decode.unknown-type"))
    assert str(caught.value) == BY_LABEL["decode.unknown-type"]["upstream_error"]


def test_the_short_keys_of_old_peers_are_enough() -> None:
    pairs = {"Type": "transport.HeartbeatResponse", "PayloadEncoding": "json"}
    assert wire.decode(seal(pairs, b"{}")).payload == HeartbeatResponse()


def test_metadata_has_every_pair_twice_where_it_must() -> None:
    label = "data.bidaccepted"
    vector = BY_LABEL[label]
    message = wire.decode(body(label))
    made = wire.data_metadata(
        message.payload, message.source, 1767323045.678901, 1207, vector["subject"]
    )
    expected = dict(vector["headers"])
    # A float of seconds holds microseconds; upstream counts nanoseconds.
    expected["Bacalhau-EventTime"] = expected["Bacalhau-EventTime"][:-3] + "000"
    assert made == expected


def test_the_frames_repeat_the_metadata_as_headers() -> None:
    message = wire.decode(body("data.bidresult.rejected"))
    frames = wire.frames(message.payload, message.metadata, "_INBOX.a.b")
    assert frames[0] == body("data.bidresult.rejected")
    assert json.loads(frames[1]) == message.metadata
    assert frames[2] == b"_INBOX.a.b"


@pytest.mark.parametrize(
    ("text", "seq"), [("7", 7), ("", 0), ("-1", 0), ("1e3", 0), ("9" * 30, 0), ("٣", 0)]
)
def test_a_sequence_that_cannot_be_read_is_none(text: str, seq: int) -> None:
    message = wire.NclMessage(HeartbeatResponse(), {wire.SEQ: text})
    assert message.seq == seq


@pytest.mark.parametrize(
    ("subject", "found"),
    [
        ("bacalhau.global.compute.n-1.out.ctrl", (wire.CTRL, "n-1")),
        ("bacalhau.global.compute.n-1.out.msgs", (wire.OUT_MSGS, "n-1")),
        ("node.management.n-1.RegisterNode/v1", ("node.management.RegisterNode/v1", "n-1")),
        ("node.compute.n-1.ExecutionLogs/v1", (wire.LOGS, "n-1")),
        ("bacalhau.global.compute.a.b.out.ctrl", ("", "")),
        ("else", ("", "")),
    ],
)
def test_subjects_name_channel_and_node(subject: str, found: tuple[str, str]) -> None:
    assert wire.parse_subject(subject) == found


@pytest.mark.parametrize("text", ["", "a.b", "a*", ">", "a b", "a\0", "a\n", "x" * 256])
def test_what_cannot_be_a_node_id(text: str) -> None:
    assert not wire.is_node_id(text)


def test_what_can_be_a_node_id() -> None:
    assert wire.is_node_id("n-7b1c7d2e-0f5c-4a52-9a3e-2f6d0c8e4b11")


@pytest.mark.parametrize(
    ("data", "is_ack"),
    [(b"{}", True), (b'{"error":"x","delay":1}', False), (b"", False), (b"[]", False)],
)
def test_only_an_object_without_an_error_is_an_ack(data: bytes, is_ack: bool) -> None:
    assert wire.is_ack(data) is is_ack


def test_the_vectors_of_acks_are_read() -> None:
    assert wire.is_ack(body("data.ack"))
    assert not wire.is_ack(body("data.nack.first"))


def test_a_header_is_found_or_empty() -> None:
    assert wire.header_of(b'{"A":"1"}', "A") == "1"
    assert wire.header_of(b"", "A") == wire.header_of(b"{", "A") == ""


def test_an_inbox_has_22_characters() -> None:
    assert len(wire.inbox_token("anything")) == 22


@given(st.binary(max_size=300))
def test_any_payload_is_a_message_or_malformed(data: bytes) -> None:
    for kind in TYPES:
        pairs = {wire.TYPE: kind, wire.ENCODING: "json"}
        try:
            wire.decode(seal(pairs, data))
        except MalformedMessage:
            continue


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["NodeInfo", "Labels", "ID", "Job", "Tasks"]), inner)
    ),
    max_leaves=8,
)


@given(_json)
def test_any_json_as_a_payload_is_a_message_or_malformed(found: object) -> None:
    for kind in ("transport.HandshakeRequest", "AskForBid"):
        pairs = {wire.TYPE: kind, wire.ENCODING: "json"}
        try:
            wire.decode(seal(pairs, json.dumps(found).encode()))
        except MalformedMessage:
            continue
