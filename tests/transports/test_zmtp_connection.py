"""One ZeroMQ peer's connection, without a socket: messages do not depend on how bytes are split."""

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from tests.transports.wires import Wire
from tests.transports.zmtp_peers import (
    GREETING_CURVE,
    GREETING_NULL,
    CurvePeer,
    frame,
    message,
    ready,
)

from dragoman.transports import zmtp_connection
from dragoman.transports.accepted_connection import ConnectionLimits
from dragoman.transports.base import Address, OversizedFrame
from dragoman.transports.zmtp_connection import ZmtpConnection
from dragoman.transports.zmtp_curve import Curve, CurveKeyPair
from dragoman.transports.zmtp_mechanism import Null
from dragoman.transports.zmtp_wire import COMMAND, OPENING, ROUTER, ROUTER_2, command

OWN = CurveKeyPair(zmq.curve_keypair()[1])


class Notes:
    """A router that records the calls."""

    def __init__(self) -> None:
        self.limits = ConnectionLimits(message=5000, undrained_bytes=20_000, undrained=3)
        self.trouble: list[str] = []
        self.names: list[Address] = []
        self.taken: set[Address] = set()
        self.greetings = 0

    def admit(self, connection: ZmtpConnection) -> bool:
        return True

    def greeted(self, connection: ZmtpConnection) -> None:
        self.greetings += 1

    def release(self, connection: ZmtpConnection) -> None: ...

    def note(self, reason: str, connection: ZmtpConnection) -> None:
        self.trouble.append(reason)

    def schedule_handshake(self, connection: ZmtpConnection, body: bytes) -> None:
        connection.run_handshake(body)

    def choose_namespace(self, connection: ZmtpConnection) -> bool:
        return True

    def assign_address(self, connection: ZmtpConnection, wanted: Address) -> bool:
        self.names.append(wanted)
        return wanted not in self.taken

    def hold(self, connection: ZmtpConnection, key: str) -> bool:
        return False

    def messages_arrived(self, connection: ZmtpConnection) -> None:
        connection.pause_if_full()


def connected(curve: bool = False) -> tuple[Notes, ZmtpConnection, Wire]:
    notes, wire = Notes(), Wire()
    mechanism = Curve([OWN], None) if curve else Null()
    connection = ZmtpConnection(notes, True, mechanism)
    connection.connection_made(wire)
    assert wire.take() == OPENING
    return notes, connection, wire


def opened() -> tuple[Notes, ZmtpConnection, Wire]:
    notes, connection, wire = connected()
    connection.data_received(GREETING_NULL + ready(b"anna"))
    assert connection.is_open
    wire.take()
    return notes, connection, wire


bodies = st.lists(st.lists(st.binary(max_size=400), min_size=1, max_size=4), max_size=5)


@given(bodies, st.integers(1, 500))
def test_messages_do_not_depend_on_how_bytes_are_split(
    messages: list[list[bytes]], piece: int
) -> None:
    notes, connection, _ = connected()
    data = GREETING_NULL + ready(b"anna") + b"".join(message(*each) for each in messages)
    for at in range(0, len(data), piece):
        connection.data_received(data[at : at + piece])
    assert list(connection.inbox) == messages
    assert (notes.names, notes.greetings, notes.trouble) == ([b"anna"], 1, [])


@given(bodies, st.integers(1, 500))
def test_encrypted_messages_do_not_depend_on_how_bytes_are_split(
    messages: list[list[bytes]], piece: int
) -> None:
    _, connection, wire = connected(curve=True)
    peer = shaken(connection, wire)
    data = b"".join(
        frame(peer.seal(body, int(n < len(each) - 1)))
        for each in messages
        for n, body in enumerate(each)
    )
    for at in range(0, len(data), piece):
        connection.data_received(data[at : at + piece])
    assert list(connection.inbox) == messages


def shaken(connection: ZmtpConnection, wire: Wire) -> CurvePeer:
    peer = CurvePeer(OWN.public)
    connection.data_received(GREETING_CURVE)
    wire.take()
    connection.data_received(frame(peer.hello(), 4))
    peer.welcome(wire.take()[2:])
    connection.data_received(frame(peer.initiate(b"anna"), 4))
    assert peer.ready(wire.take()[2:]) == ROUTER
    return peer


def test_messages_leave_together_with_a_flush() -> None:
    _, connection, wire = opened()
    connection.queue((b"", b"one"))
    connection.queue((b"x" * 300,))
    assert (wire.written, connection.unsent) == (b"", 303)
    connection.flush()
    assert wire.take() == message(b"", b"one") + message(b"x" * 300)


def test_boxes_leave_in_frames_that_show_nothing_of_the_message() -> None:
    _, connection, wire = connected(curve=True)
    peer = shaken(connection, wire)
    connection.queue((b"", b"secret"))
    connection.flush()
    sent = wire.take()
    first, second = sent[: 2 + sent[1]], sent[2 + sent[1] :]
    assert (first[0], second[0]) == (0, 0)
    assert peer.unseal(first[2:]) == (1, b"")
    assert peer.unseal(second[2:]) == (0, b"secret")
    assert b"secret" not in sent


def test_a_peer_that_asks_whether_we_are_there_is_answered() -> None:
    _, connection, wire = opened()
    connection.data_received(frame(b"\x04PING\x00\x0acontext", 4))
    assert wire.take() == frame(b"\x04PONGcontext", 4)
    connection.data_received(frame(b"\x05LATER", 4) + message(b"hello"))
    assert list(connection.inbox) == [[b"hello"]], "commands of the future are passed over"


def test_a_peer_that_asks_and_never_reads_is_left() -> None:
    notes, connection, wire = opened()
    notes.limits.unsent_limit = 100
    wire.unsent = 101
    connection.data_received(frame(b"\x04PING\x00\x0a", 4))
    assert (notes.trouble, wire.take(), wire.is_closed) == (["messages unread"], b"", True)


def test_a_boxed_question_is_answered_in_a_box() -> None:
    _, connection, wire = connected(curve=True)
    peer = shaken(connection, wire)
    connection.data_received(frame(peer.seal(b"\x04PING\x00\x0ax", 2)))
    assert peer.unseal(wire.take()[2:]) == (2, command(b"PONG", b"x"))


def test_a_peer_of_zmtp_2_is_greeted_in_its_own_way() -> None:
    notes, connection, wire = connected()
    data = b"\xff" + bytes(7) + b"\x01\x7f\x01\x05\x00\x04anna" + message(b"", b"hello")
    for byte in data:
        connection.data_received(bytes([byte]))
    assert wire.take() == ROUTER_2
    assert (notes.names, list(connection.inbox)) == ([b"anna"], [[b"", b"hello"]])


CASES = {
    "GET / HTTP/1.1": (b"GET / HTTP/1.1", "no ZeroMQ"),
    "ZMTP 1": (b"\x05\x00anna", "no ZeroMQ"),
    "ZMTP 1, long": (b"\xff" + bytes(8) + b"\x00", "no ZeroMQ"),
    "a SUB of ZMTP 2": (b"\xff" + bytes(8) + b"\x7f\x01\x02\x00\x00", "no partner of a ROUTER"),
    "a PUB": (GREETING_NULL + ready(b"", b"PUB"), "no partner of a ROUTER"),
    "CURVE": (GREETING_CURVE, "another mechanism than NULL"),
    "a message first": (GREETING_NULL + message(b"x"), "handshake broken off"),
    "another command": (GREETING_NULL + frame(b"\x05HELLO", 4), "handshake broken off"),
    "a long introduction": (GREETING_NULL + b"\x06" + (8193).to_bytes(8), "too large"),
    "a name of ours": (GREETING_NULL + ready(b"\0abcd"), "no name that a peer may have"),
    "a long name": (GREETING_NULL + ready(b"x" * 256), "no name that a peer may have"),
    "a frame too large, and more": (
        GREETING_NULL + ready(b"a") + b"\x03" + (5001).to_bytes(8),
        "too large",
    ),
    "a command too large": (
        GREETING_NULL + ready(b"a") + b"\x06" + (5001).to_bytes(8),
        "too large",
    ),
    "a frame of 16 limits": (
        GREETING_NULL + ready(b"a") + b"\x02" + (16 * 5000 + 1).to_bytes(8),
        "too large",
    ),
    "endless frames": (GREETING_NULL + ready(b"a") + frame(b"x" * 4000, 1) * 6, "too large"),
    "a handshake command with MORE": (GREETING_NULL + frame(ready(b"a")[2:], 5), "no ZeroMQ"),
    "a command with MORE": (GREETING_NULL + ready(b"a") + frame(b"\x04PING\0\0", 5), "no ZeroMQ"),
    "flags of no meaning": (GREETING_NULL + ready(b"a") + b"\x08\x00", "no ZeroMQ"),
    "its own no": (GREETING_NULL + ready(b"a") + frame(b"\x05ERROR\x00", 4), "handshake broken"),
}


@pytest.mark.parametrize(("data", "reason"), CASES.values(), ids=CASES)
def test_what_cannot_be_understood_ends_the_connection(data: bytes, reason: str) -> None:
    notes, connection, wire = connected()
    connection.data_received(data)
    assert len(notes.trouble) == 1
    assert reason in notes.trouble[0]
    assert wire.is_closing()


@pytest.mark.parametrize("piece", [1, 7, 4000, 20_000])
def test_the_last_frame_of_a_message_may_be_too_large_and_the_connection_stays(piece: int) -> None:
    notes, connection, wire = opened()
    data = frame(b"head", 1) + b"\x02" + (5001).to_bytes(8) + bytes(5001) + message(b"after")
    for at in range(0, len(data), piece):
        connection.data_received(data[at : at + piece])
    oversized, after = connection.inbox
    assert (oversized, after) == ([b"head", b""], [b"after"])
    last = oversized[-1]
    assert isinstance(last, OversizedFrame)
    assert (last.size, last.limit) == (5001, 5000)
    assert (notes.trouble, wire.is_closed) == (["too large"], False)


def test_a_boxed_frame_that_is_too_large_counts_as_the_last() -> None:
    notes, connection, wire = connected(curve=True)
    peer = shaken(connection, wire)
    boxed = [peer.seal(b"head", 1), peer.seal(bytes(6000), 0), peer.seal(b"after", 0)]
    for body in boxed:
        connection.data_received(frame(body))
    assert list(connection.inbox) == [[b"head", b""], [b"after"]]
    assert notes.trouble == ["too large"]


def test_too_many_frames_are_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zmtp_connection, "MAX_FRAMES", 10)
    notes, connection, _ = opened()
    connection.data_received(frame(b"", 1) * 11)
    assert notes.trouble == ["too large"]


def test_messages_before_malformed_bytes_are_kept() -> None:
    notes, connection, wire = opened()
    connection.data_received(message(b"hello") + b"\x03" + (5001).to_bytes(8))
    assert (notes.trouble, list(connection.inbox)) == (["too large"], [[b"hello"]])
    assert wire.is_closed


def test_who_wants_another_mechanism_hears_which_one_is_spoken() -> None:
    notes, connection, wire = connected(curve=True)
    connection.data_received(GREETING_NULL + ready(b"anna"))
    assert notes.trouble == ["no CURVE, or another broker's key"]
    assert wire.take()[1:6] == b"CURVE"
    assert not wire.is_aborted, "so that it arrives"


def test_a_plain_frame_on_an_encrypted_connection_is_refused() -> None:
    notes, connection, wire = connected(curve=True)
    shaken(connection, wire)
    connection.data_received(message(b"", b"hello"))
    assert notes.trouble == ["forged or repeated frame"]
    assert not connection.inbox


def test_a_peer_of_zmtp_2_has_no_key() -> None:
    notes, connection, _ = connected(curve=True)
    connection.data_received(b"\xff" + bytes(8) + b"\x7f\x01\x05\x00\x04anna")
    assert notes.trouble == ["no CURVE, or another broker's key"]
    assert not connection.is_open


def test_a_name_that_is_anothers_ends_it_after_the_handshake() -> None:
    notes, connection, wire = connected()
    notes.taken.add(b"anna")
    connection.data_received(GREETING_NULL + ready(b"anna"))
    assert (notes.trouble, wire.is_closed, connection.is_open) == (["name taken"], True, False)
    assert frame(command(b"READY", ROUTER), COMMAND) in wire.take()


def test_nothing_more_is_read_while_too_much_waits() -> None:
    _, connection, wire = opened()
    connection.data_received(message(b"x") * 4)
    assert not wire.reads
    connection.inbox.clear()
    connection.drained()
    assert wire.reads
