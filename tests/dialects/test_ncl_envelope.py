"""Envelopes: the vectors both ways, and any bytes."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.ncl_vectors import BY_LABEL, body, enveloped, labels

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl.envelope import JSON, PROTOBUF, dump, seal, unseal

V1 = [label for label in enveloped("") if body(label)[:1] == b"\x01" and "decode." not in label]


@pytest.mark.parametrize("label", V1)
def test_version_1_is_byte_equal(label: str) -> None:
    opened = unseal(body(label))
    assert opened.version == JSON
    assert seal(opened.metadata, opened.payload) == body(label)


@pytest.mark.parametrize("label", [la for la in V1 if "headers" in BY_LABEL[la]])
def test_the_metadata_is_what_the_headers_repeat(label: str) -> None:
    assert dict(unseal(body(label)).metadata) == BY_LABEL[label]["headers"]


@pytest.mark.parametrize("label", labels("envelope.protobuf"))
def test_version_2_says_the_same_after_a_round_trip(label: str) -> None:
    opened = unseal(body(label))
    assert opened.version == PROTOBUF
    assert unseal(seal(opened.metadata, opened.payload, PROTOBUF)) == opened


@pytest.mark.parametrize(
    "label", ["envelope.protobuf.single", "envelope.protobuf.upstream-unit-test"]
)
def test_version_2_with_one_pair_is_byte_equal(label: str) -> None:
    opened = unseal(body(label))
    assert seal(opened.metadata, opened.payload, PROTOBUF) == body(label)


def test_both_versions_of_the_same_message_say_the_same() -> None:
    opened = unseal(body("envelope.protobuf.heartbeatresponse"))
    assert opened.payload == b'{"LastComputeSeqNum":19}'
    assert opened.metadata["Bacalhau-Type"] == "transport.HeartbeatResponse"


@pytest.mark.parametrize("label", ["decode.empty", "decode.badcrc"])
def test_what_upstream_refuses_is_refused_in_its_words(label: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        unseal(body(label))
    assert str(caught.value) == BY_LABEL[label]["upstream_error"]


def test_null_metadata_is_one_more_unreadable_message() -> None:
    with pytest.raises(MalformedMessage, match="metadata is null"):
        unseal(body("decode.null-metadata"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x01\x00", "fewer"),
        (b"\x03\x00\x00\x00\x00", "version 3"),
        (seal({}, b"{"), "not the JSON"),
    ],
)
def test_each_check_has_its_words(data: bytes, words: str) -> None:
    with pytest.raises(MalformedMessage, match=words):
        unseal(data)


def seal_bytes(version: int, content: bytes) -> bytes:
    return bytes([version]) + crc32(content).to_bytes(4, "big") + content


@pytest.mark.parametrize(
    "data",
    [
        seal_bytes(JSON, b'{"metadata":{"a":"b"}}'),
        seal_bytes(PROTOBUF, bytes([10, 8, 10, 6, 10, 1, 97, 18, 1, 98])),
        seal({"a": "b"}, b"", PROTOBUF),
    ],
)
def test_a_message_without_a_payload_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage, match="payload is missing"):
        unseal(data)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    deep = b"[" * 100_000
    with pytest.raises(MalformedMessage):
        unseal(_framed(b'{"x":' + deep))


def _framed(text: bytes, version: int = 1) -> bytes:
    return bytes([version]) + crc32(text).to_bytes(4, "big") + text


@given(st.binary(max_size=400))
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    for attempt in (data, _framed(data), _framed(data, 2)):
        try:
            unseal(attempt)
        except MalformedMessage:
            continue


@given(st.dictionaries(st.text(), st.text()), st.binary())
def test_protobuf_keeps_any_pairs_and_payload(pairs: dict[str, str], payload: bytes) -> None:
    opened = unseal(seal(pairs, payload or b"x", PROTOBUF))
    assert dict(opened.metadata) == pairs
    assert opened.payload == (payload or b"x")


def test_escapes_are_those_of_the_peers() -> None:
    assert dump({"a": "<b>&\u2028\u2029é"}) == (
        b'{"a":"\\u003cb\\u003e\\u0026\\u2028\\u2029\xc3\xa9"}'
    )


def test_a_protobuf_field_that_runs_past_the_end_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        unseal(_framed(b"\x0a\x7fabc", 2))


def test_unknown_protobuf_fields_are_skipped() -> None:
    extra = b"\x18\x05" + b"\x21" + bytes(8) + b"\x2d" + bytes(4)
    opened = unseal(_framed(extra + b"\x12\x04\x0a\x02{}", 2))
    assert opened.payload == b"{}"
