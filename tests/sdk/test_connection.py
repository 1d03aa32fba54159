"""The connection keeps what a full transport does not take, and can open a new socket."""

import asyncio

from tests.sdk.scripted_transport import ScriptedTransport

from dragoman.sdk.connection import BrokerConnection
from dragoman.transports.base import Sent


def test_what_a_full_transport_does_not_take_is_sent_later_and_in_order() -> None:
    async def scene() -> None:
        transport = ScriptedTransport()
        connection = BrokerConnection(lambda: transport, lambda frames: None)
        await connection.open()
        transport.outcome = Sent.FULL
        connection.send([[b"1"], [b"2"]])
        connection.send([[b"3"]])
        assert transport.sent == []
        transport.outcome = Sent.YES
        transport.wake()
        assert transport.sent == [[b"1"], [b"2"], [b"3"]]
        await connection.close()
        assert transport.is_closed

    asyncio.run(scene())


def test_a_received_message_is_handed_on_and_its_time_is_noted() -> None:
    async def scene() -> None:
        transport = ScriptedTransport()
        received: list[list[bytes]] = []
        connection = BrokerConnection(lambda: transport, received.append)
        await connection.open()
        connection.heard_at = 0.0
        transport.arrived.append([b"x"])
        transport.wake()
        assert received == [[b"x"]]
        assert connection.heard_at > 0

    asyncio.run(scene())


def test_a_rebuild_closes_the_old_socket_and_drops_what_waited() -> None:
    async def scene() -> None:
        transports: list[ScriptedTransport] = []

        def make() -> ScriptedTransport:
            transports.append(ScriptedTransport())
            return transports[-1]

        connection = BrokerConnection(make, lambda frames: None)
        await connection.open()
        transports[0].outcome = Sent.FULL
        connection.send([[b"old"]])
        await connection.rebuild()
        connection.send([[b"new"]])
        assert transports[0].is_closed
        assert transports[1].sent == [[b"new"]]
        await connection.close()
        await connection.rebuild()
        assert len(transports) == 2

    asyncio.run(scene())


def test_send_first_goes_before_messages_that_already_wait() -> None:
    async def scene() -> None:
        transport = ScriptedTransport()
        connection = BrokerConnection(lambda: transport, lambda frames: None)
        connection.send([[b"result"]])
        await connection.open()
        connection.send_first([[b"hello"], [b"ready"]])
        assert transport.sent == [[b"hello"], [b"ready"], [b"result"]]
        await connection.close()

    asyncio.run(scene())


def test_two_rebuilds_at_once_make_one_new_transport() -> None:
    async def scene() -> None:
        made: list[ScriptedTransport] = []

        def make() -> ScriptedTransport:
            made.append(ScriptedTransport())
            return made[-1]

        connection = BrokerConnection(make, lambda frames: None)
        await connection.open()
        await asyncio.gather(connection.rebuild(), connection.rebuild())
        assert len(made) == 2
        assert made[0].is_closed
        await connection.close()
        assert made[1].is_closed

    asyncio.run(scene())


class Renewable(ScriptedTransport):
    """A transport that can renew itself while `is_fit`."""

    def __init__(self) -> None:
        super().__init__()
        self.is_fit = True
        self.renewed = 0

    async def renew(self) -> bool:
        await asyncio.sleep(0)
        self.renewed += self.is_fit
        return self.is_fit


def test_a_transport_that_can_renew_itself_is_kept_until_it_fails_to() -> None:
    async def scene() -> None:
        made: list[Renewable] = []

        def make() -> Renewable:
            made.append(Renewable())
            return made[-1]

        received: list[list[bytes]] = []
        connection = BrokerConnection(make, received.append)
        await connection.open()
        connection.heard_at = 0.0
        made[0].arrived.append([b"early"])
        await connection.rebuild()
        assert received == [[b"early"]]
        assert connection.heard_at > 0
        assert (len(made), made[0].renewed, made[0].is_closed) == (1, 1, False)
        made[0].is_fit = False
        await connection.rebuild()
        assert (len(made), made[0].is_closed) == (2, True)
        await connection.close()

    asyncio.run(scene())


def test_a_transport_that_is_renewed_while_its_owner_closes_is_closed() -> None:
    async def scene() -> None:
        transport = Renewable()
        connection = BrokerConnection(lambda: transport, lambda frames: None)
        await connection.open()
        await asyncio.gather(connection.rebuild(), connection.close())
        assert transport.is_closed

    asyncio.run(scene())
