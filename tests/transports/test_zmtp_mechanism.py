"""NULL: two READY commands, and no key."""

import pytest

from dragoman.transports.zmtp_mechanism import ConnectionRejected, Null
from dragoman.transports.zmtp_wire import ROUTER, command, properties


def test_each_end_introduces_itself() -> None:
    null = Null()
    assert null.begin() == [command(b"READY", ROUTER)]
    assert null.receive(command(b"READY", properties(Socket_Type=b"REQ"))) == []
    assert null.properties == {b"socket-type": b"REQ"}
    assert (null.key, null.seal, null.unseal) == ("", None, None)


@pytest.mark.parametrize("said", [b"", b"\x05READY\x09", command(b"HELLO"), command(b"ERROR")])
def test_any_other_command_ends_the_handshake(said: bytes) -> None:
    null = Null()
    with pytest.raises(ConnectionRejected, match="broken off"):
        null.receive(said)
    assert null.properties is None
