"""The loop of a leader: it stops at once when it no longer leads."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.server.memory_server import MemoryServer, settle
from tests.server.test_loop import HeldLedger, submission

from dragoman.core.effects import Append
from dragoman.ledger.base import Entry, LedgerUnavailable
from dragoman.ledger.memory import MemoryLedger


def test_records_that_a_new_leader_has_written_are_not_written_again() -> None:
    server = MemoryServer()
    first = server.broker.handle(submission("j1", strict=False), 1.0)
    asyncio.run(server.ledger.append([Entry(e.record) for e in first if isinstance(e, Append)]))
    heard: list[Entry] = []
    server.loop.listeners.append(heard.extend)

    async def run() -> None:
        await server.links.open()
        server.loop.stop()
        await server.loop.run(first, is_written=True)

    asyncio.run(run())
    assert [entry.record for entry in heard] == list(server.ledger.read())


class NoLongerLeading(Exception):
    """This broker may not act."""


def test_a_loop_that_no_longer_leads_sends_nothing_more_not_even_relaxed() -> None:
    server = MemoryServer()
    peer = server.worker("w", "math")

    def refuse() -> None:
        raise NoLongerLeading

    async def run() -> None:
        await server.links.open()
        serving = asyncio.create_task(server.loop.run())
        await settle(server.has_workers)
        server.loop.require_lead = refuse
        server.loop.submit(submission("j1", strict=False))
        with pytest.raises(NoLongerLeading):
            await serving

    asyncio.run(run())
    assert not peer.inbox


def test_a_halted_loop_drops_what_waits_for_the_ledger() -> None:
    ledger = HeldLedger()
    server = MemoryServer(ledger)

    async def run() -> None:
        await server.links.open()
        serving = asyncio.create_task(server.loop.run())
        server.loop.submit(submission("j1"))
        await settle(lambda: ledger.asked)
        server.loop.halt(NoLongerLeading())
        async with asyncio.timeout(10):
            with pytest.raises(NoLongerLeading):
                await serving

    asyncio.run(run())


def test_a_batch_in_doubt_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.server.loop.RETRY_AFTER", 0.0)

    class InDoubt(MemoryLedger):
        asked = 0

        async def append(self, entries: Sequence[Entry]) -> int:
            self.asked += 1
            if self.asked == 1:
                raise LedgerUnavailable("no majority has confirmed it")
            return await super().append(entries)

    server = MemoryServer(InDoubt())

    async def scenario(server: MemoryServer) -> None:
        server.loop.submit(submission("j1"))
        await settle(lambda: server.ledger.last_seq)

    server.run(scenario)
    assert next(server.ledger.read()).job == "j1"
