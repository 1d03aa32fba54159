"""Records that no send waits for: they are written soon, and together."""

import asyncio
from collections.abc import Callable

import pytest
from tests.server.memory_server import MemoryServer, settle
from tests.server.test_loop import HeldLedger, submission

from dragoman.server.loop import RELAXED_DELAY


def test_records_that_nobody_waits_for_share_a_write_until_somebody_waits() -> None:
    ledger = HeldLedger()
    ledger.gate.set()
    server = MemoryServer(ledger)

    async def scenario(server: MemoryServer) -> None:
        peer = server.worker("w", "math", credit=100)
        await settle(lambda: ledger.last_seq == 1)
        written = ledger.asked
        for n in range(10):
            server.loop.submit(submission(f"j{n}", strict=False))
            await settle(lambda n=n: len(peer.inbox) > n)  # type: ignore[misc]
        # Ten turns and ten sends; the records of them all are still together.
        assert ledger.asked <= written + 2
        await settle(lambda: ledger.last_seq == 21)

    server.run(scenario)


def test_one_timer_serves_all_records_that_nobody_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = MemoryServer()
    delays: list[object] = []

    async def scenario(server: MemoryServer) -> None:
        peer = server.worker("w", "math", credit=100)
        await settle(lambda: server.ledger.last_seq == 1)
        clock = asyncio.get_running_loop()
        call_later = clock.call_later

        def counted(
            delay: float, callback: Callable[..., object], *args: object
        ) -> asyncio.TimerHandle:
            if callback == server.loop._end_delay:
                # Later than any turn of this test.
                delays.append(delay)
                delay = 60.0
            return call_later(delay, callback, *args)

        monkeypatch.setattr(clock, "call_later", counted)
        for n in range(10):
            server.loop.submit(submission(f"j{n}", strict=False))
            await settle(lambda n=n: len(peer.inbox) > n)  # type: ignore[misc]

    server.run(scenario)
    assert delays == [RELAXED_DELAY]
