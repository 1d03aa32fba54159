"""A connection waits with what a full transport does not take, and can start anew."""

import asyncio

from tests.sdk.line import Line

from dragoman.sdk.connection import BrokerConnection
from dragoman.transports.base import Sent


def test_what_a_full_transport_does_not_take_is_sent_later_and_in_order() -> None:
    async def scene() -> None:
        line = Line()
        connection = BrokerConnection(lambda: line, lambda frames: None)
        await connection.open()
        line.outcome = Sent.FULL
        connection.send([[b"1"], [b"2"]])
        connection.send([[b"3"]])
        assert line.sent == []
        line.outcome = Sent.YES
        line.wake()
        assert line.sent == [[b"1"], [b"2"], [b"3"]]
        await connection.close()
        assert line.is_closed

    asyncio.run(scene())


def test_what_arrives_is_handed_over_and_remembered_as_a_sign_of_life() -> None:
    async def scene() -> None:
        line = Line()
        heard: list[list[bytes]] = []
        connection = BrokerConnection(lambda: line, heard.append)
        await connection.open()
        connection.heard_at = 0.0
        line.arrived.append([b"x"])
        line.wake()
        assert heard == [[b"x"]]
        assert connection.heard_at > 0

    asyncio.run(scene())


def test_a_rebuild_closes_the_old_socket_and_drops_what_waited() -> None:
    async def scene() -> None:
        lines: list[Line] = []

        def make() -> Line:
            lines.append(Line())
            return lines[-1]

        connection = BrokerConnection(make, lambda frames: None)
        await connection.open()
        lines[0].outcome = Sent.FULL
        connection.send([[b"old"]])
        await connection.rebuild()
        connection.send([[b"new"]])
        assert lines[0].is_closed
        assert lines[1].sent == [[b"new"]]
        await connection.close()
        await connection.rebuild()
        assert len(lines) == 2

    asyncio.run(scene())


def test_first_things_go_before_what_came_up_while_there_was_no_connection() -> None:
    async def scene() -> None:
        line = Line()
        connection = BrokerConnection(lambda: line, lambda frames: None)
        connection.send([[b"result"]])
        await connection.open()
        connection.send_first([[b"hello"], [b"ready"]])
        assert line.sent == [[b"hello"], [b"ready"], [b"result"]]
        await connection.close()

    asyncio.run(scene())


def test_two_who_rebuild_at_once_get_one_new_transport() -> None:
    async def scene() -> None:
        made: list[Line] = []

        def make() -> Line:
            made.append(Line())
            return made[-1]

        connection = BrokerConnection(make, lambda frames: None)
        await connection.open()
        await asyncio.gather(connection.rebuild(), connection.rebuild())
        assert len(made) == 2
        assert made[0].is_closed
        await connection.close()
        assert made[1].is_closed

    asyncio.run(scene())


class Renewable(Line):
    """A transport that can begin anew by itself, while it is fit."""

    def __init__(self) -> None:
        super().__init__()
        self.is_fit = True
        self.renewed = 0

    async def renew(self) -> bool:
        await asyncio.sleep(0)
        self.renewed += self.is_fit
        return self.is_fit


def test_a_transport_that_can_renew_itself_is_kept_until_it_is_not_fit_any_more() -> None:
    async def scene() -> None:
        made: list[Renewable] = []

        def make() -> Renewable:
            made.append(Renewable())
            return made[-1]

        heard: list[list[bytes]] = []
        connection = BrokerConnection(make, heard.append)
        await connection.open()
        connection.heard_at = 0.0
        made[0].arrived.append([b"early"])
        await connection.rebuild()
        assert heard == [[b"early"]]
        assert connection.heard_at > 0
        assert (len(made), made[0].renewed, made[0].is_closed) == (1, 1, False)
        made[0].is_fit = False
        await connection.rebuild()
        assert (len(made), made[0].is_closed) == (2, True)
        await connection.close()

    asyncio.run(scene())


def test_a_transport_that_is_renewed_while_its_owner_closes_is_closed() -> None:
    async def scene() -> None:
        line = Renewable()
        connection = BrokerConnection(lambda: line, lambda frames: None)
        await connection.open()
        await asyncio.gather(connection.rebuild(), connection.close())
        assert line.is_closed

    asyncio.run(scene())
