"""A broker that serves: its parts, from the opening of the links to the last record.

`server` makes one after each recovery. The parts are made together, because some need others;
nothing runs before `run`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from dragoman.core.broker import Broker
from dragoman.core.effects import Effect
from dragoman.core.events import Noted
from dragoman.core.needed_records import NeededRecords
from dragoman.dialects.registry import body_codecs
from dragoman.ledger.base import LedgerError
from dragoman.ledger.snapshots import SNAPSHOT_FILE, FileSnapshots
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Kind
from dragoman.server.audit_export import AuditExport
from dragoman.server.background_snapshots import BackgroundSnapshots
from dragoman.server.builtin_services import relaxed_services
from dragoman.server.builtin_wiring import make_builtin
from dragoman.server.clock import Clock
from dragoman.server.control import BrokerControl
from dragoman.server.credentials import certificate_of
from dragoman.server.guard import Guard
from dragoman.server.leadership import LEADERSHIP_ENDS, Leadership, write_last
from dragoman.server.ledger_maintenance import LedgerMaintenance, make_maintenance
from dragoman.server.ledger_queries import LedgerQueries
from dragoman.server.ledger_watch import LedgerWatch
from dragoman.server.links import Links
from dragoman.server.loop import Loop
from dragoman.server.mesh import Mesh
from dragoman.server.namespace_place import NamespacePlace
from dragoman.server.service_runner import ServiceRunner
from dragoman.server.service_terms import ServiceTerms
from dragoman.server.settings import BrokerSettings
from dragoman.server.side_recovery import SideRecovery
from dragoman.server.store_recovery import take_snapshot
from dragoman.server.traces import JobTraces, OtlpSpans
from dragoman.server.webhooks import make_webhooks
from dragoman.server.wiring import OPEN, Admission, admission_of, make_links
from dragoman.services.inventory import Inventory
from dragoman.services.logs import LogBuffer
from dragoman.transports.memory import MemoryHub

if TYPE_CHECKING:
    from dragoman.server.federation import Federation

log = structlog.get_logger("dragoman.server")

#: Called with the bound endpoints by link when all are open.
OnReady = Callable[[dict[str, str]], None]
#: Stops or restarts the broker: seconds for running jobs, and whether it begins again.
GoDown = Callable[[float | None, bool], None]


@dataclass(frozen=True)
class RecoveredBroker:
    """A broker that continues where the last one on its ledger stopped."""

    ledger: SqliteLedger
    broker: Broker
    clock: Clock
    #: What it does first.
    first: list[Effect]
    #: The last record of the snapshot at start; 0: there was none. Pages before were not checked.
    covered: int = 0


class ServingBroker:
    """One broker from its recovery to its end."""

    def __init__(
        self,
        settings: BrokerSettings,
        recovered: RecoveredBroker,
        inventory: Inventory,
        logs: LogBuffer,
        go_down: GoDown,
        member: Leadership | None = None,
        place: NamespacePlace | None = None,
        maintenance: LedgerMaintenance | None = None,
    ) -> None:
        """Make the parts. `maintenance` is that of a node, which outlives its lead."""
        self._settings, self._recovered, self._member = settings, recovered, member
        self._guard = make_guard(settings, recovered.clock)
        hub, admission = MemoryHub(), make_admission(settings, self._guard, recovered.clock, place)
        mesh = Mesh(settings, admission, recovered.broker.state)
        self._links = Links([*make_links(settings, hub, admission, place), *mesh.links])
        self.loop = make_loop(settings, recovered, self._links)
        if self._guard is not None:
            self._guard.attach(self.loop, body_codecs())
        self._maintenance = maintenance or make_maintenance(recovered.ledger, settings)
        self._queries = LedgerQueries(recovered.ledger.path, body_codecs())
        self._builtin, self._overview = make_builtin(
            settings,
            hub,
            inventory,
            self.loop,
            self._guard,
            BrokerControl(self.loop, go_down, self._maintenance.seal_now),
            self._queries,
            logs,
            None if member is None else member.row,
        )
        if place is not None:
            place.extend(self._builtin.mmi)
        mesh.attach(self.loop, self._builtin.mmi.tasks, self._overview.view)
        self._overview.follow(mesh.rows, None if member is None else member.cluster.ask_nodes)
        self._overview.sealed_seq = self._maintenance.sealed_seq
        self._runner = ServiceRunner(hub)
        self._make_listeners()

    def _make_listeners(self) -> None:
        """Make what follows the records of the loop."""
        settings, loop, ledger = self._settings, self.loop, self._recovered.ledger
        now = self._recovered.clock.now
        self._watch = LedgerWatch(ledger, loop)
        self._snapshots = BackgroundSnapshots(
            ledger,
            settings.data,
            settings.limits,
            self._recovered.covered,
            is_checked=not self._recovered.covered,
        )
        self._audit = AuditExport(settings.security, settings.data, ledger, ledger.head, now)
        loop.listeners += self._audit.listeners
        self._hooks = make_webhooks(settings, ledger, loop, now)
        self._spans = OtlpSpans(settings.traces.endpoint) if settings.traces.endpoint else None
        if self._spans is not None:
            loop.listeners.append(JobTraces(self._spans.export, body_codecs()).durable)

    async def run(self, on_ready: OnReady) -> None:
        """Serve until the loop is told to stop. Raises what ends the lead of a node."""
        try:
            await self._open(on_ready)
            is_written = self._member is not None
            await self.loop.run(self._recovered.first, is_written=is_written)
        except LEADERSHIP_ENDS:
            await self._maintenance.pause()
            await self._audit.stop()
            await self._snapshots.stop()
            raise
        finally:
            await self._close()
        await self._end()

    async def _open(self, on_ready: OnReady) -> None:
        health = self.loop.health
        await self._links.open()
        for task in self._links.background_tasks():
            health.watch(task)
        for service in self._builtin.services():
            self._runner.offer(service)
        on_ready(self._links.endpoints())
        self._overview.lag.start()
        store = self._recovered.broker.state.store
        self._maintenance.lead(self._recovered.clock.now, lambda: NeededRecords(store), health)
        if self._member is None:
            self._maintenance.start_sealing()
        for part in (self._snapshots, self._audit, self._hooks):
            part.start(health)
        self._watch.start()
        if self._guard is not None:
            self._guard.start()
        if self._member is not None:
            self.loop.require_lead = self._member.require_lead
            self._member.serves(self._links.endpoints(), self.loop.halt)

    async def _close(self) -> None:
        """End everything that peers or records reach."""
        await self._watch.stop()
        await self._hooks.stop()
        if self._guard is not None:
            await self._guard.stop()
        await self._runner.close()
        self._builtin.close()
        self._overview.lag.stop()
        await self._links.close()
        await self._queries.close()
        if self._spans is not None:
            await asyncio.to_thread(self._spans.close)

    async def _end(self) -> None:
        """Write the last records and a snapshot; a node hands over."""
        ledger, broker = self._recovered.ledger, self._recovered.broker
        stopped = broker.handle(Noted(Kind.STOPPED), self._recovered.clock.now())
        await write_last(ledger, stopped, is_alone=self._member is None)
        await self._audit.stop()
        if self._member is None:
            await self._maintenance.stop()
        else:
            await self._maintenance.pause()
            await self._member.hand_over()
        await self._snapshots.stop()
        await asyncio.to_thread(self._take_snapshot)
        log.info("stopped", records=ledger.last_seq)

    def _take_snapshot(self) -> None:
        """Write a snapshot of the stopped broker, so that the next start reads little else."""
        store, ledger = self._recovered.broker.state.store, self._recovered.ledger
        snapshots = FileSnapshots(self._settings.data / SNAPSHOT_FILE)
        try:
            take_snapshot(store, ledger, snapshots, self._settings.limits.retention)
        except (LedgerError, OSError) as error:
            log.warning("no snapshot was written; the next start takes longer", error=str(error))


def make_loop(settings: BrokerSettings, recovered: RecoveredBroker, links: Links) -> Loop:
    """Make the loop; the sides of its links learn from the ledger what was sent."""
    sides = {link.name: link.side for link in links.by_name.values()}
    recovery = SideRecovery(sides, recovered.broker, recovered.ledger.body)
    recovery.restore(recovered.clock.now())
    terms = ServiceTerms(settings.services, relaxed_services(), settings.weights)
    loop = Loop(recovered.broker, recovered.ledger, links, recovered.clock, terms)
    loop.engine.before_send = recovery.before
    return loop


def make_guard(settings: BrokerSettings, clock: Clock) -> Guard | None:
    """Return the guard; None while security is off."""
    if not settings.security.enabled:
        return None
    return Guard(settings.security, settings.data, clock.now, certificate_of(settings))


def make_admission(
    settings: BrokerSettings, guard: Guard | None, clock: Clock, place: NamespacePlace | None
) -> Admission:
    """Return the checks of the listeners, which may be for several namespaces."""
    if guard is None:
        return OPEN
    admission = admission_of(guard, _federation(settings, guard, clock))
    if place is None or place.shared is None:
        return admission
    guard.registry.elsewhere = place.is_elsewhere
    return place.shared.admission(place.name, admission)


def _federation(settings: BrokerSettings, guard: Guard, clock: Clock) -> "Federation | None":
    """Return the issuers of tokens; None if the settings name none."""
    issuers = settings.security.issuers
    if not issuers:
        return None
    # Here, not above: a broker without issuers starts without a library for JWTs.
    from dragoman.server.federation import Federation

    return Federation(issuers, guard.tokens, clock.now, guard.report_token, data=settings.data)
