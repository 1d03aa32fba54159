"""What every line does, whatever is spoken on it."""

from tests.transports.wires import Wire

from dragoman.transports.accepted_connection import AcceptedConnection, ConnectionLimits


class Host:
    """Lets in whom it is told to, and remembers."""

    def __init__(self, has_room: bool = True) -> None:
        self.bounds = ConnectionLimits()
        self.has_room = has_room
        self.told: list[str] = []

    def admit(self, line: AcceptedConnection) -> bool:
        return self.has_room

    def greeted(self, line: AcceptedConnection) -> None: ...

    def release(self, line: AcceptedConnection) -> None:
        self.told.append("released")

    def note(self, why: str, line: AcceptedConnection) -> None:
        self.told.append(why)


class Polite(AcceptedConnection):
    greeting = b"good day"


def connected(host: Host) -> tuple[AcceptedConnection, Wire]:
    line, wire = Polite(host, is_ipc=True), Wire()
    line.connection_made(wire)
    return line, wire


def test_a_line_greets_if_there_is_room_and_is_gone_if_there_is_none() -> None:
    _, wire = connected(Host())
    assert (wire.written, wire.is_aborted) == (b"good day", False)
    _, wire = connected(Host(has_room=False))
    assert (wire.written, wire.is_aborted) == (b"", True)


def test_what_is_gathered_leaves_in_one_piece_and_not_on_a_line_that_has_ended() -> None:
    line, wire = connected(Host())
    line.out += [b"one", b"two"]
    line.out_bytes = 6
    assert line.unread == 6
    line.flush()
    assert (wire.written, line.unread) == (b"good dayonetwo", 0)
    wire.abort()
    line.out.append(b"three")
    line.flush()
    assert wire.written == b"good dayonetwo"


def test_reading_goes_on_when_there_is_no_reason_against_it_left() -> None:
    line, wire = connected(Host())
    line.hold("one")
    line.hold("another")
    line.unhold("one")
    assert not wire.reads
    line.unhold("another")
    assert wire.reads


def test_a_line_that_fails_is_counted_and_its_end_is_told() -> None:
    host = Host()
    line, wire = connected(host)
    line.fail("makes no sense")
    assert wire.is_aborted
    line.connection_lost(None)
    assert host.told == ["makes no sense", "released"]
