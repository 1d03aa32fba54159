"""Accepted connections, whatever protocol they carry."""

from tests.transports.wires import Wire

from dragoman.transports.accepted_connection import AcceptedConnection, ConnectionLimits


class RecordingOwner:
    """Admits as configured, and records the calls."""

    def __init__(self, has_room: bool = True) -> None:
        self.limits = ConnectionLimits()
        self.has_room = has_room
        self.told: list[str] = []

    def admit(self, connection: AcceptedConnection) -> bool:
        return self.has_room

    def greeted(self, connection: AcceptedConnection) -> None: ...

    def release(self, connection: AcceptedConnection) -> None:
        self.told.append("released")

    def note(self, reason: str, connection: AcceptedConnection) -> None:
        self.told.append(reason)


class Polite(AcceptedConnection):
    greeting = b"good day"


def connected(owner: RecordingOwner) -> tuple[AcceptedConnection, Wire]:
    connection, wire = Polite(owner, is_ipc=True), Wire()
    connection.connection_made(wire)
    return connection, wire


def test_a_connection_greets_if_admitted_and_is_aborted_if_not() -> None:
    _, wire = connected(RecordingOwner())
    assert (wire.written, wire.is_aborted) == (b"good day", False)
    _, wire = connected(RecordingOwner(has_room=False))
    assert (wire.written, wire.is_aborted) == (b"", True)


def test_queued_bytes_leave_in_one_write_and_not_on_a_closed_connection() -> None:
    connection, wire = connected(RecordingOwner())
    connection.out += [b"one", b"two"]
    connection.out_bytes = 6
    assert connection.unsent == 6
    connection.flush()
    assert (wire.written, connection.unsent) == (b"good dayonetwo", 0)
    wire.abort()
    connection.out.append(b"three")
    connection.flush()
    assert wire.written == b"good dayonetwo"


def test_reading_goes_on_when_there_is_no_reason_against_it_left() -> None:
    connection, wire = connected(RecordingOwner())
    connection.pause_for("one")
    connection.pause_for("another")
    connection.resume_for("one")
    assert not wire.reads
    connection.resume_for("another")
    assert wire.reads


def test_a_failed_connection_is_counted_and_released() -> None:
    owner = RecordingOwner()
    connection, wire = connected(owner)
    connection.fail("makes no sense")
    assert wire.is_aborted
    connection.connection_lost(None)
    assert owner.told == ["makes no sense", "released"]
