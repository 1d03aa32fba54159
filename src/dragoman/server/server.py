"""A broker as a process: ledger, role in a cluster, recovery, serving, and an orderly shutdown."""

import asyncio
import os
import time
from contextlib import suppress
from typing import Final

import structlog

from dragoman.core.broker import Broker
from dragoman.core.effects import Effect
from dragoman.core.events import DrainRequested, Noted
from dragoman.core.job_store import JobStore
from dragoman.core.limits import Limits
from dragoman.core.recovery import resume
from dragoman.ledger.atomic_file import make_folder
from dragoman.ledger.audit import read_key
from dragoman.ledger.layout import LEDGER_FILE as LEDGER_FILE
from dragoman.ledger.node_segments import NodeSegments
from dragoman.ledger.replicated import ReplicatedLedger, open_replica
from dragoman.ledger.snapshots import SNAPSHOT_FILE, FileSnapshots, SnapshotUnusable
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Kind
from dragoman.security.files import make_private_folder
from dragoman.server.accept_errors import AcceptErrors
from dragoman.server.clock import Clock
from dragoman.server.clock_check import describe_clock, require_plausible
from dragoman.server.cluster_node import ClusterNode, Role
from dragoman.server.file_roots import check_roots
from dragoman.server.leadership import LEADERSHIP_ENDS, Leadership
from dragoman.server.lease import LeaseHolder
from dragoman.server.ledger_maintenance import LedgerMaintenance, make_maintenance
from dragoman.server.loop import Loop
from dragoman.server.machine_memory import usable_memory, with_memory
from dragoman.server.namespace_place import NamespacePlace
from dragoman.server.serving import OnReady, RecoveredBroker, ServingBroker
from dragoman.server.settings import BrokerSettings
from dragoman.server.settings_pinned import pinned
from dragoman.server.stop_signals import stop_on_signals
from dragoman.server.store_recovery import (
    RecoveredStore,
    collector_paused,
    recover_store,
)
from dragoman.services.inventory import Inventory
from dragoman.services.inventory_files import BrokenInventory
from dragoman.services.logs import LogBuffer

log = structlog.get_logger("dragoman.server")

_PROGRESS_EVERY: Final = 250_000


class Server:
    """One broker on one ledger, alone or in a cluster. `run` returns after `stop`."""

    def __init__(
        self,
        settings: BrokerSettings,
        cluster: ClusterNode | None = None,
        place: NamespacePlace | None = None,
    ) -> None:
        """Prepare; `place` is set if the process has several namespaces, and this is one."""
        self.settings = settings
        self._place = place
        self.leadership = None if cluster is None else Leadership(cluster)
        self.loop: Loop | None = None
        self._asked_to_stop = 0
        self._begin_again = False
        #: Whether this node was told to end its role.
        self._ends_role = False
        self._draining: asyncio.Task[None] | None = None
        #: That of a node, which also runs while it is a standby.
        self._maintenance: LedgerMaintenance | None = None
        self._logs = LogBuffer(namespace="" if place is None else place.name)
        #: The last record of the snapshot at start; 0: there was none.
        self._covered = 0

    async def run(self, on_ready: OnReady) -> None:
        """Recover, open the links, serve, drain; repeat after a restart command."""
        self._logs.attach()
        AcceptErrors().attach(asyncio.get_running_loop())
        try:
            while True:
                self._begin_again = self._ends_role = False
                self._asked_to_stop = 0
                await self._run_once(on_ready)
                if not self._begin_again:
                    return
                log.info("restarting in the same process")
        finally:
            self._logs.detach()

    async def _run_once(self, on_ready: OnReady) -> None:
        settings = self.settings
        await asyncio.to_thread(make_folder, settings.data)
        if problem := make_private_folder(settings.data):
            log.warning("the data folder is not private", problem=problem)
        check_roots(settings)
        inventory = await asyncio.to_thread(self._read_inventory)
        trusted = self._trusted()
        ledger = await asyncio.to_thread(self._open_ledger, trusted)
        try:
            # The pages before the snapshot were not checked; that is done in the background.
            self._covered = trusted[0] if trusted else 0
            await self._take_part(ledger, inventory, on_ready)
        finally:
            self.loop = None
            if self.leadership is not None:
                await self.leadership.leave()
            await ledger.close()

    def _open_ledger(self, trusted: tuple[int, str] | None) -> SqliteLedger:
        path, key = self.settings.data / LEDGER_FILE, read_key(self.settings.security.audit_key)
        if self.leadership is None:
            return SqliteLedger(path, key, trusted)
        return open_replica(path, self.leadership.cluster.stream, key, trusted)

    async def _take_part(
        self, ledger: SqliteLedger, inventory: Inventory, on_ready: OnReady
    ) -> None:
        """Serve: at once if this broker is alone, else whenever it leads."""
        member = self.leadership
        if member is None or not isinstance(ledger, ReplicatedLedger):
            recovered = await asyncio.to_thread(self._recover, ledger)
            await self._serve(recovered, inventory, on_ready)
            return
        self._handle_signals()
        if self._ends_role:
            return
        keep = self.settings.limits.finished_jobs
        sealed = NodeSegments(ledger, lambda: member.role is Role.LEADER)
        self._maintenance = maintenance = make_maintenance(ledger, self.settings, sealed)
        maintenance.start_sealing()
        try:
            store = await member.until_leading(ledger, self._snapshots(), keep)
            if store is None:
                return
            recovered = await asyncio.to_thread(self._recover, ledger, store)
            await member.fence(ledger, recovered.first)
            await member.close_pass_through()
            await self._serve(recovered, inventory, on_ready)
        except LEADERSHIP_ENDS as error:
            self._begin_again = not self._asked_to_stop
            log.error("this node no longer leads; it follows the next leader", error=str(error))
        finally:
            self._maintenance = None
            await maintenance.stop()

    def _read_inventory(self) -> Inventory:
        """Read the inventory. A broken file is a usage error that names the file and the line."""
        settings = self.settings
        try:
            secrets = settings.secrets.paths
            return Inventory(settings.data, settings.inventory_path, settings.inventory, secrets)
        except BrokenInventory as error:
            raise ValueError(str(error)) from None

    def _snapshots(self) -> FileSnapshots:
        return FileSnapshots(self.settings.data / SNAPSHOT_FILE)

    def _trusted(self) -> tuple[int, str] | None:
        """Return the last record of the snapshot, and its mark: the ledger was checked up to it."""
        with suppress(SnapshotUnusable):
            if (head := self._snapshots().head()) is not None:
                return head.seq, head.mark
        return None

    def _recover(self, ledger: SqliteLedger, store: JobStore | None = None) -> RecoveredBroker:
        """Fold the ledger into a broker that continues where the last one stopped.

        A standby has the fold already: `store`.
        """
        shares = 1 if self._place is None else self._place.count
        limits = with_memory(self.settings.limits, usable_memory() // shares)
        records = ledger.last_seq - ledger.first_seq + 1
        if records > _PROGRESS_EVERY:
            log.info("recovering", records=records)
        with collector_paused():
            recovered = (
                RecoveredStore(store)
                if store is not None
                else recover_store(ledger, self._snapshots(), limits.finished_jobs)
            )
            broker, clock, first = self._resume(recovered, limits, records)
            return RecoveredBroker(ledger, broker, clock, first, self._covered)

    def _resume(
        self, recovered: RecoveredStore, limits: Limits, records: int
    ) -> tuple[Broker, Clock, list[Effect]]:
        store = recovered.store
        wall = time.time if self.leadership is None else self.leadership.time.now
        if not self.settings.accept_clock:
            require_plausible(store, wall(), self.settings.largest_clock_jump)
        clock = Clock(store.last_at, wall)
        broker, first = resume(store, clock.now(), limits, self._describe_start())
        if trouble := describe_clock(store, clock, self.settings.largest_clock_jump):
            log.warning(trouble)
            first += broker.handle(Noted(Kind.CHANGED, detail=trouble), clock.now())
        log.info(
            "recovered",
            records=records,
            open_jobs=store.open_jobs,
            snapshot_up_to=recovered.snapshot_seq,
        )
        return broker, clock, first

    def _describe_start(self) -> str:
        """Return what the first record says of this process."""
        member = self.leadership
        where = "" if member is None else f"node {member.cluster.node}, epoch {member.epoch}, "
        return f"{where}pid {os.getpid()}"

    async def _serve(
        self, recovered: RecoveredBroker, inventory: Inventory, on_ready: OnReady
    ) -> None:
        def ready(endpoints: dict[str, str]) -> None:
            self.settings = pinned(self.settings, endpoints)
            on_ready(endpoints)

        parts = (self._logs, self._go_down, self.leadership, self._place, self._maintenance)
        serving = ServingBroker(self.settings, recovered, inventory, *parts)
        self.loop = serving.loop
        self.loop.is_stopping = self._ends_role
        self._handle_signals()
        await serving.run(ready)

    def _handle_signals(self) -> None:
        """Stop on signals; of several namespaces, their host does that."""
        if self._place is None:
            stop_on_signals(self.stop)

    @property
    def role(self) -> Role:
        """What this broker is at the moment."""
        return Role.STANDALONE if self.leadership is None else self.leadership.role

    @property
    def leader(self) -> LeaseHolder | None:
        """The leading node, as this one knows; None: nobody leads, or there is no cluster."""
        return None if self.leadership is None else self.leadership.leader

    @property
    def lag(self) -> int:
        """How many messages of the stream this standby has not applied yet."""
        return 0 if self.leadership is None else self.leadership.lag

    @property
    def is_going_down(self) -> bool:
        """Whether it was told to stop, and not to start again."""
        return self._asked_to_stop > 0 and not self._begin_again

    def stop(self) -> None:
        """Drain, then stop; a second call stops at once. Open jobs are safe in the ledger."""
        self._asked_to_stop += 1
        self._begin_again = False
        if self.leadership is not None:
            self._hand_over()
            return
        if self.loop is None:
            return
        if self._asked_to_stop > 1:
            self.loop.stop()
            return
        self._draining = asyncio.get_running_loop().create_task(self._drain())

    def step_down(self) -> None:
        """Hand over to a standby, and follow it."""
        self._begin_again = True
        self._hand_over()

    def _hand_over(self) -> None:
        """End the role of this node. Jobs go on at the next leader, so none is waited for."""
        assert self.leadership is not None
        self._ends_role = True
        self.leadership.stop()
        if self.loop is not None:
            self.loop.stop()

    def _go_down(self, at_most: float | None, begin_again: bool) -> None:
        """Drain, then stop or restart, after a management command."""
        self._begin_again = begin_again
        self._asked_to_stop += 1
        if self.leadership is not None:
            self._hand_over()
        elif self._asked_to_stop == 1:
            self._draining = asyncio.get_running_loop().create_task(self._drain(at_most))

    async def _drain(self, at_most: float | None = None) -> None:
        """Give running jobs some time, then stop.

        Before a stop the broker refuses new jobs. Before a restart it takes them: it will be back.
        """
        loop = self.loop
        assert loop is not None
        patience = self.settings.drain if at_most is None else at_most
        if not self._begin_again:
            loop.submit(DrainRequested())
        state = loop.broker.state
        waiting = sum(len(w.held) for w in state.registry.workers.values())
        log.info("draining", running=waiting, at_most_s=patience)
        until = loop.clock.now() + patience
        while loop.clock.now() < until and not loop.is_stopping:
            if not any(w.held for w in state.registry.workers.values()):
                break
            await asyncio.sleep(0.05)
        loop.stop()
