"""A message is recognised by its header, whatever port it comes to."""

from itertools import product

import pytest

from dragoman.dialects.peer_sides import Submission
from dragoman.dialects.recognition import dialect_of, name_other_dialect
from dragoman.dialects.registry import DIALECTS
from dragoman.model.content import Call
from dragoman.model.names import JobId

ZEROMQ = [name for name, each in DIALECTS.items() if each.headers]


def request(dialect: str) -> list[bytes]:
    side = DIALECTS[dialect].client_side("c", lambda: "0" * 32)
    return [bytes(f) for f in side.submit(Submission(JobId("1" * 32), "math", Call("add")))[0]]


@pytest.mark.parametrize("dialect", ZEROMQ)
def test_a_clients_request_is_recognised(dialect: str) -> None:
    assert dialect_of(request(dialect)) == dialect


@pytest.mark.parametrize(("dialect", "link"), list(product(ZEROMQ, ZEROMQ)))
def test_only_another_dialect_is_named_with_its_port(dialect: str, link: str) -> None:
    text = name_other_dialect(link, request(dialect))
    assert (text == "") == (dialect == link)
    if text:
        port = DIALECTS[dialect].client_listener.port
        assert text.startswith(f"this is a message of {dialect}, whose usual port is {port}")


def test_both_listeners_of_a_dialect_have_its_messages() -> None:
    assert name_other_dialect("zss_backend", request("zss")) == ""


def test_other_bytes_are_of_no_dialect() -> None:
    assert dialect_of([]) == ""
    assert dialect_of([b"x", b"", b"y", b"NFPC01"]) == ""
