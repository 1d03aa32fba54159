"""A ledger that cannot be written is noticed without traffic."""

import asyncio
from pathlib import Path
from typing import Any, cast

from tests.server.memory_server import MemoryServer, settle

from dragoman.ledger.sqlite import SqliteLedger
from dragoman.server import ledger_watch
from dragoman.server.ledger_watch import LedgerWatch


def test_a_folder_that_is_moved_blocks_the_broker_until_it_is_back(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(ledger_watch, "_EVERY", 0.001)
    folder = tmp_path / "data"
    ledger = SqliteLedger(folder / "ledger.sqlite")
    server = MemoryServer(cast(Any, ledger))

    async def scenario(server: MemoryServer) -> None:
        watch, state = LedgerWatch(ledger, server.loop), server.broker.state
        watch.start()
        folder.rename(tmp_path / "aside")
        await settle(lambda: state.blocked_because)
        assert "deleted, moved or replaced" in state.blocked_because
        (found,) = server.loop.health.troubles()
        assert found.is_blocking
        assert str(folder) in found.detail
        (tmp_path / "aside").rename(folder)
        await settle(lambda: not state.blocked_because)
        assert server.loop.health.troubles() == []
        await watch.stop()

    server.run(scenario)
    asyncio.run(ledger.close())


def test_while_a_write_is_repeated_the_watch_does_not_judge(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    server = MemoryServer(cast(Any, ledger))

    async def scenario(server: MemoryServer) -> None:
        server.loop.health.report("ledger", "full", is_blocking=True)
        server.loop.is_retrying = True
        await LedgerWatch(ledger, server.loop).check()
        assert server.loop.is_ledger_failing
        server.loop.is_retrying = False
        await LedgerWatch(ledger, server.loop).check()
        assert not server.loop.is_ledger_failing

    server.run(scenario)
    asyncio.run(ledger.close())
