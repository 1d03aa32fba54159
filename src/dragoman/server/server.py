"""A broker as a process: ledger, recovery, links, loop, sealing, and going down in good order."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect
from dragoman.core.events import DrainAsked, Noted
from dragoman.core.recovery import fold, resume
from dragoman.dialects.nfp.management import UnknownTask
from dragoman.dialects.nfp.settings import INVENTORY, MANAGEMENT
from dragoman.ledger.base import Entry
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.content import Call
from dragoman.model.record import Kind
from dragoman.server.clock import Clock
from dragoman.server.host import Host, ServiceFault
from dragoman.server.links import Links
from dragoman.server.loop import Loop
from dragoman.server.management import Management
from dragoman.server.policies import Policies
from dragoman.server.settings import Settings
from dragoman.server.wiring import make_links, nfp_settings
from dragoman.transports.memory import MemoryHub

log = structlog.get_logger("dragoman.server")

LEDGER_FILE: Final = "ledger.sqlite"
_PROGRESS_EVERY: Final = 250_000

#: Told the bound endpoints by link once all are open.
OnReady = Callable[[dict[str, str]], None]


class Server:
    """One broker on one ledger. `run` returns when it was told to stop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.loop: Loop | None = None
        self._asked_to_stop = 0

    async def run(self, on_ready: OnReady) -> None:
        """Recover, open the links, serve, drain."""
        settings = self.settings
        settings.data.mkdir(parents=True, exist_ok=True)
        ledger = await asyncio.to_thread(SqliteLedger, settings.data / LEDGER_FILE)
        try:
            broker, clock, first = await asyncio.to_thread(self._recover, ledger)
            await self._serve(ledger, broker, clock, first, on_ready)
        finally:
            await ledger.close()

    def _recover(self, ledger: SqliteLedger) -> tuple[Broker, Clock, list[Effect]]:
        """Fold the ledger into a broker that goes on where the last one stopped."""
        limits = self.settings.limits.as_limits()
        records = ledger.last_seq - ledger.first_seq + 1
        if records > _PROGRESS_EVERY:
            log.info("recovering", records=records)
        book = fold(ledger.read(ledger.first_seq - 1), limits.finished_jobs)
        clock = Clock(at_least=book.last_at)
        broker, first = resume(book, ledger.body, clock.now(), limits, f"pid {os.getpid()}")
        log.info("recovered", records=records, open_jobs=book.open_jobs)
        return broker, clock, first

    async def _serve(
        self,
        ledger: SqliteLedger,
        broker: Broker,
        clock: Clock,
        first: list[Effect],
        on_ready: OnReady,
    ) -> None:
        settings = self.settings
        manage = Later()
        hub = MemoryHub()
        links = Links(make_links(settings, manage, hub))
        await asyncio.to_thread(_restore, links, ledger, clock.now())
        policies = Policies(settings.services)
        self.loop = loop = Loop(broker, ledger, links, clock, policies)
        manage.target = Management(
            broker.desk,
            loop.archive,
            links,
            clock.now,
            nfp_settings(settings),
            settings.inventory,
            {"data": str(settings.data)},
        )
        self._handle_signals()
        try:
            await links.open()
            Host(hub).offer("broker", management_names(), partial(_managed, manage), credit=100)
            on_ready(links.endpoints())
            await loop.run(first)
        finally:
            await links.close()
        stopped = broker.handle(Noted(Kind.STOPPED), clock.now())
        await ledger.append([Entry(e.record) for e in stopped if isinstance(e, Append)])
        log.info("stopped", records=ledger.last_seq)

    def _handle_signals(self) -> None:
        """Stop on signals; embedded in a program's thread, signals are the program's matter."""
        if threading.current_thread() is not threading.main_thread():
            return
        running = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            running.add_signal_handler(number, self.stop)

    def stop(self) -> None:
        """Drain, then stop; told again, stop at once. Open jobs are safe in the ledger."""
        self._asked_to_stop += 1
        if self.loop is None:
            return
        if self._asked_to_stop > 1:
            self.loop.stop()
            return
        asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        """Take nothing new in, give running jobs some time, then stop."""
        loop = self.loop
        assert loop is not None
        loop.submit(DrainAsked())
        desk = loop.broker.desk
        waiting = sum(len(w.held) for w in desk.registry.workers.values())
        log.info("draining", running=waiting, at_most_s=self.settings.drain)
        until = loop.clock.now() + self.settings.drain
        while loop.clock.now() < until and not loop.is_stopping:
            if not any(w.held for w in desk.registry.workers.values()):
                break
            await asyncio.sleep(0.05)
        loop.stop()


def _restore(links: Links, ledger: SqliteLedger, now: float) -> None:
    """Let sides that keep state of their own in the ledger have it again."""
    for link in links.by_name.values():
        restore = getattr(link.side, "restore", None)
        if restore is not None:
            restore(ledger.read(ledger.first_seq - 1), ledger.body, now)


def management_names() -> tuple[str, ...]:
    """Return the names the broker's own services go by; ZSS shouts its names."""
    names = (MANAGEMENT, INVENTORY)
    return (*names, *(name.upper() for name in names))


def _managed(manage: "Later", call: Call) -> object:
    """Answer a management call that came as an ordinary job."""
    service = INVENTORY if call.task == "get_inventory" else MANAGEMENT
    try:
        return manage(service, call.task.lower(), list(call.args), dict(call.kwargs))
    except UnknownTask:
        raise ServiceFault(f"unknown management task {call.task!r}") from None


class Later:
    """A management function that is known only after the links are made."""

    def __init__(self) -> None:
        self.target: Callable[..., object] | None = None

    def __call__(self, service: str, task: str, args: list[Any], kwargs: dict[str, Any]) -> object:
        """Answer through the target."""
        assert self.target is not None
        return self.target(service, task, args, kwargs)


def write_ready_file(path: Path, endpoints: dict[str, str]) -> None:
    """Write the bound endpoints, whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(endpoints) + "\n")
    part.rename(path)
