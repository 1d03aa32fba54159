"""Failed handshakes have a budget; if it is spent, the kernel drops new connections."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from dragoman.transports import accept_limiter
from dragoman.transports.accept_limiter import (
    AcceptBudget,
    AcceptLimiter,
    allow_new_connections,
    block_new_connections,
)


def test_a_budget_is_spent_and_filled_again() -> None:
    budget = AcceptBudget(10.0, 3.0, now=0.0)
    assert [budget.spend(0.0) for _ in range(5)] == [True, True, True, False, False]
    assert budget.spend(0.1) is False, "what was overdrawn is paid first"
    assert budget.spend(0.5) is True
    for _ in range(1000):
        budget.spend(0.5)
    assert budget.spend(1.5) is True, "there is an end to what is overdrawn"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def connects(listener: socket.socket, source: str, within: float = 0.3) -> bool:
    try:
        with socket.create_connection(listener.getsockname(), within, (source, 0)):
            listener.accept()[0].close()
            return True
    except TimeoutError:
        return False


def test_only_those_to_blame_are_turned_away(listener: socket.socket) -> None:
    assert block_new_connections(listener.fileno(), ["127.0.0.2", "127.0.0.3", "127.0.0.4"])
    found = {n: connects(listener, f"127.0.0.{n}") for n in range(1, 6)}
    assert found == {1: True, 2: False, 3: False, 4: False, 5: True}
    assert allow_new_connections(listener.fileno())
    assert connects(listener, "127.0.0.3")


def test_everybody_is_turned_away_and_who_is_there_goes_on(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()) as old, listener.accept()[0] as ours:
        assert block_new_connections(listener.fileno())
        assert not connects(listener, "127.0.0.1")
        old.sendall(b"still here")
        assert ours.recv(100) == b"still here"
        assert allow_new_connections(listener.fileno())
        assert connects(listener, "127.0.0.1")


def test_a_connection_that_began_before_it_was_shut_is_whole(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()) as old:
        block_new_connections(listener.fileno())
        with listener.accept()[0] as ours:
            for side, other in ((old, ours), (ours, old)):
                side.sendall(b"x" * 10_000)
                assert len(other.recv(10_000, socket.MSG_WAITALL)) == 10_000


class Step:
    """A limiter with a clock of its own."""

    def __init__(self, listener: socket.socket) -> None:
        self.now = 0.0
        self.notes = 0
        self.door = AcceptLimiter(self._noted, lambda: self.now)
        self.door.attach(listener.fileno())

    def _noted(self) -> None:
        self.notes += 1

    def blocked(self) -> tuple[str, ...] | None:
        return self.door.blocked

    def fail(self, count: int, address: str = "") -> None:
        for _ in range(count):
            self.door.failed(address)


def test_a_flood_shuts_out_its_address_and_only_for_a_moment(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accept_limiter, "PAUSE", 0.01)

    opened = asyncio.Event()

    def let_in_and_tell(fd: int) -> bool:
        opened.set()
        return allow_new_connections(fd)

    monkeypatch.setattr(accept_limiter, "allow_new_connections", let_in_and_tell)

    async def flood() -> None:
        step = Step(listener)
        step.fail(int(accept_limiter.FAILURES_AT_ONCE), "::ffff:10.0.0.1")
        assert step.blocked() is None
        step.fail(1, "10.0.0.1")
        assert step.blocked() == ("10.0.0.1",)
        step.fail(50, "10.0.0.1")
        assert step.blocked() == ("10.0.0.1",), "these had begun before"
        step.fail(1, "10.0.0.2")
        assert step.blocked() == (), "it goes on from elsewhere"
        await opened.wait()
        assert step.blocked() is None
        assert step.notes == 2
        step.now += 3.0
        step.fail(10, "10.0.0.1")
        assert step.blocked() is None
        step.door.close()

    asyncio.run(flood())
    assert connects(listener, "127.0.0.1")


def test_who_cannot_be_named_is_met_by_shutting_for_everybody(listener: socket.socket) -> None:
    async def floods() -> None:
        for address in ("", "fe80::1", "no address"):
            step = Step(listener)
            step.fail(int(accept_limiter.FAILURES_AT_ONCE) + 1, address)
            assert step.blocked() == ()
            step.door.close()
        step = Step(listener)
        for number in range(int(accept_limiter.FAILURES_AT_ONCE) + 1):
            step.fail(1, f"10.0.{number // 250}.{number % 250}")
        assert step.blocked() == (), "everybody failed once"
        step.door.close()
        allow_new_connections(listener.fileno())

    asyncio.run(floods())


def test_too_many_arrivals_shut_it_as_well(listener: socket.socket) -> None:
    async def arrive() -> None:
        step = Step(listener)
        for _ in range(int(accept_limiter.ARRIVALS_AT_ONCE)):
            step.door.arrived()
        assert step.blocked() is None
        step.door.arrived()
        assert step.blocked() == ()
        step.door.close()
        allow_new_connections(listener.fileno())

    asyncio.run(arrive())


def test_what_cannot_be_asked_of_the_kernel_is_no_trouble() -> None:
    with socket.socket() as gone:
        number = gone.fileno()
    with suppress(OSError):
        assert not block_new_connections(number)
    assert not allow_new_connections(number)
