"""Messages: each type has its name and a vector."""

from tests.dialects.ncl_vectors import body, enveloped

from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.messages import (
    NAMES,
    TYPES,
    BacError,
    BidAccepted,
    HandshakeResponse,
    UpdateNodeInfoResponse,
)


def test_names_and_types_are_one_to_one() -> None:
    assert {NAMES[kind] for kind in TYPES.values()} == set(TYPES)


def test_every_type_is_in_the_vectors() -> None:
    seen = {wire.decode(body(la)).metadata[wire.TYPE] for la in enveloped("c", "data.", "req.")}
    assert set(TYPES) - seen == {"heartbeat"}


def test_lower_case_members_are_lower_case() -> None:
    assert dump(UpdateNodeInfoResponse(True)) == b'{"accepted":true}'
    text = b'{"accepted":false,"reason":"no","LastComputeSeqNum":0,"LastOrchestratorSeqNum":0}'
    assert dump(HandshakeResponse(False, "no")) == text


def test_a_bid_is_accepted_by_default() -> None:
    assert dump(BidAccepted(None, "e")) == b'{"Events":null,"ExecutionID":"e","Accepted":true}'


def test_an_error_is_readable_with_two_members() -> None:
    found = wire.read_payload(BacError, b'{"Cause":"c","Code":"HandshakeRequired"}')
    assert found == BacError(Cause="c", Code="HandshakeRequired")
