"""One requester's connection: messages do not depend on how bytes are split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.transports.sp_peers import frame
from tests.transports.wires import Wire

from dragoman.transports.accepted_connection import ConnectionLimits
from dragoman.transports.base import Address, OversizedFrame
from dragoman.transports.sp_connection import CONNECTION, REPLIER, REQUESTER, SpConnection

NAME = b"12345678"


class Notes:
    """A replier that records the calls."""

    def __init__(self) -> None:
        self.limits = ConnectionLimits(message=20)
        self.taken: list[tuple[Address, bytes]] = []
        self.trouble: list[str] = []

    def next_name(self) -> bytes:
        return NAME

    def admit(self, connection: SpConnection) -> bool:
        return True

    def greeted(self, connection: SpConnection) -> None: ...

    def take(self, connection: SpConnection, address: Address, body: bytes) -> None:
        self.taken.append((address, body))

    def release(self, connection: SpConnection) -> None: ...

    def note(self, reason: str, connection: SpConnection) -> None:
        self.trouble.append(reason)


def connected() -> tuple[Notes, SpConnection, Wire]:
    notes, wire = Notes(), Wire()
    connection = SpConnection(notes, is_ipc=True)
    connection.connection_made(wire)
    assert wire.written == REPLIER
    return notes, connection, wire


def ipc(number: int, body: bytes = b"") -> bytes:
    return b"\x01" + frame(number, body)


@given(st.lists(st.binary(max_size=24), max_size=6), st.integers(1, 40))
def test_messages_do_not_depend_on_how_bytes_are_split(bodies: list[bytes], piece: int) -> None:
    notes, connection, _ = connected()
    data = REQUESTER + b"".join(ipc(n, body) for n, body in enumerate(bodies))
    for at in range(0, len(data), piece):
        connection.data_received(data[at : at + piece])
    assert [body for _, body in notes.taken] == bodies
    is_oversized = [len(body) + 4 > 20 for body in bodies]
    assert [isinstance(body, OversizedFrame) for _, body in notes.taken] == is_oversized
    assert notes.trouble == ["too large"] * sum(is_oversized)
    for number, (address, _) in enumerate(notes.taken):
        assert address[:CONNECTION] == NAME
        assert int.from_bytes(address[CONNECTION:]) & 0x7FFFFFFF == number


def test_answers_are_written_in_one_piece_by_a_flush() -> None:
    _, connection, wire = connected()
    connection.queue(b"\x80\0\0\1", b"one")
    connection.queue(b"\x80\0\0\2", b"")
    assert (wire.written, connection.unsent) == (REPLIER, 11)
    connection.flush()
    assert wire.written == REPLIER + ipc(1, b"one") + ipc(2)
    assert connection.unsent == 0


def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    _, connection, wire = connected()
    connection.pause_writing()
    assert not wire.reads
    connection.resume_writing()
    assert wire.reads


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"GET /", "bad greeting, but HTTP"), (REQUESTER + b"\x02" + bytes(8), "bad frame")],
)
def test_what_cannot_be_understood_ends_the_connection(data: bytes, reason: str) -> None:
    notes, connection, wire = connected()
    connection.data_received(data)
    assert (notes.trouble, wire.is_aborted) == ([reason], True)
