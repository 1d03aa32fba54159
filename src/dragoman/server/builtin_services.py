"""The built-in services of a broker, and the parts of the broker that each may use."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec
import structlog

from dragoman.core.effects import SendReply
from dragoman.core.events import Noted, ReplyKind, ResourcesDeclared, ResourcesSettled
from dragoman.dialects.local.body_codec import LocalBodyCodec
from dragoman.dialects.registry import body_codecs
from dragoman.ledger.base import Entry
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId, ServiceName
from dragoman.model.record import Kind, Record
from dragoman.server.broker_view import BrokerView
from dragoman.server.control import BrokerControl
from dragoman.server.event_poll import TASK, EventPoll
from dragoman.server.internal_client import InternalClient, value_of
from dragoman.server.loop import Loop
from dragoman.server.settings import BrokerSettings
from dragoman.services.base import BuiltinService, ServiceFault, ServiceSession, TaskFunction
from dragoman.services.file_store import FileStore
from dragoman.services.fss import FILES, FILESHARING, FileService
from dragoman.services.inventory import Inventory, InventoryChange
from dragoman.services.inventory_files import BrokenInventory, read_resources
from dragoman.services.logs import LogBuffer
from dragoman.services.mmi import MANAGEMENT, BrokerManagement
from dragoman.services.secret_references import SecretSources
from dragoman.services.sid import INVENTORY, InventoryService, reveal_or_error
from dragoman.services.workers import AGENT, WORKERS, AgentWorker, WorkerManagement

log = structlog.get_logger("dragoman.services")

#: Worker names of built-in services; some dialects key results by worker name.
BROKER: Final = "broker"
FILE_WORKER: Final = "files"
#: Prefixes of the broker's own topics.
_RESERVED: Final = ("broker.", "inventory.")


class BuiltinServices:
    """All built-in services of one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        inventory: Inventory,
        loop: Loop,
        broker_view: BrokerView,
        control: BrokerControl,
        logs: LogBuffer,
        internal_client: InternalClient,
        queue_tasks: Mapping[str, TaskFunction] | None = None,
    ) -> None:
        self._loop = loop
        self._inventory = inventory
        self._codec = LocalBodyCodec()
        self.sid = InventoryService(
            inventory,
            loop.clock.now,
            lambda: [w.name for w in broker_view.workers()],
            self._changed,
            self._files_changed,
            SecretSources(settings.secrets.folders, settings.secrets.environment),
        )
        self.event_poll = EventPoll(
            loop.ledger, body_codecs(), lambda: loop.broker.state.is_draining
        )
        loop.listeners.append(self.event_poll.durable)
        more: dict[str, TaskFunction] = {TASK: self.event_poll.events, "publish": self._publish}
        more |= queue_tasks or {}
        self.mmi = BrokerManagement(broker_view, control, logs, self.sid.broker, more)
        self.worker_mmi = WorkerManagement(self._managed, self._ask)
        self._asking = internal_client
        self._tasks: set[asyncio.Task[None]] = set()
        self._declared: set[str] = set()
        self._declare_resources()
        loop.listeners.append(self._durable)
        files = settings.files
        store = FileStore(
            files.roots, frozenset(files.writable), files.largest_put, files.keep_days
        )
        self.fss = FileService(store)
        self._shares = bool(files.roots)
        for name in with_capitals(INVENTORY):
            loop.reveal[name] = self._reveal
        for name in with_capitals(MANAGEMENT):
            loop.reveal[name] = self._fill_events

    def services(self) -> list[BuiltinService]:
        """Return the services to run."""
        files = (FILES, FILESHARING) if self._shares else (FILES,)
        return [
            BuiltinService(BROKER, with_capitals(MANAGEMENT), self.mmi.tasks),
            BuiltinService("inventory", with_capitals(INVENTORY), self.sid.tasks),
            BuiltinService("workers", with_capitals(WORKERS), self.worker_mmi.tasks),
            BuiltinService(FILE_WORKER, with_capitals(*files), self.fss.tasks),
        ]

    def close(self) -> None:
        """Stop threads and open calls."""
        for task in list(self._tasks):
            task.cancel()
        self.fss.close()

    # --- workers and their resources ----------------------------------------------------------

    def _managed(self) -> list[AgentWorker]:
        """Return all workers but the broker's own, and which of them are SDK workers."""
        workers = self._loop.broker.state.registry.workers.values()
        key, agent = AGENT
        return [
            AgentWorker(w.name, w.services[0], w.labels.get(key) == agent)
            for w in workers
            if not w.is_builtin
        ]

    async def _ask(self, worker: AgentWorker, task: str, kwargs: dict[str, object]) -> object:
        call = Call(f"mmi.{task}", (), kwargs)
        return value_of(await self._asking.ask(worker.service, worker.name, call))

    def _declare_resources(self) -> None:
        """Declare the resources of the inventory."""
        try:
            declared = read_resources(self._inventory.others.get("resources"))
        except BrokenInventory as error:
            log.error("the inventory's resources are ignored; correct the file", reason=str(error))
            return
        for service in self._declared - set(declared):
            self._loop.submit(ResourcesDeclared(ServiceName(service), ()))
        for service, (names, replicas) in declared.items():
            self._loop.submit(ResourcesDeclared(ServiceName(service), names, replicas))
        self._declared = set(declared)

    def _durable(self, entries: Sequence[Entry]) -> None:
        """Tell workers what they own when it is durable."""
        moving = self._loop.broker.state.moving_by_worker
        owners = {e.record.peer: e.record for e in entries if e.record.kind == Kind.OWNS}
        for peer, record in owners.items():
            if peer in moving:
                task = asyncio.ensure_future(self._tell_owned(record))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _tell_owned(self, record: Record) -> None:
        worker = self._loop.broker.state.registry.workers.get(PeerId(record.peer))
        if worker is not None and worker.labels.get(AGENT[0]) == AGENT[1]:
            names = record.detail.split("\n") if record.detail else []
            owned = {"service": record.service, "resources": names, "seq": record.seq}
            owned["worker"] = record.worker
            await self._ask(AgentWorker(worker.name, worker.services[0]), "own", owned)
        self._loop.submit(ResourcesSettled(PeerId(record.peer)))

    # --- inventory ----------------------------------------------------------------------------

    def _changed(self, change: InventoryChange, workers: list[str]) -> None:
        """Record a change, and publish an event for each worker concerned."""
        row = self._inventory.masked(change)
        cause = f"undo of {change.undoes}" if change.undoes else f"by {change.by}"
        self._note(Kind.CHANGED, f"inventory version {change.version}, {cause}", row)
        paths = [".".join((o.pattern, *o.path)) for o in change.operations]
        for worker in workers:
            event = {"worker": worker, "version": change.version, "paths": paths}
            self._note(Kind.PUBLISHED, f"inventory.{worker}", event)

    def _publish(self, session: ServiceSession, topic: str, event: object = None) -> dict[str, str]:
        """Publish an event for a caller whose dialect has no message for it."""
        if not isinstance(topic, str) or not topic.isprintable() or not 0 < len(topic) < 256:
            raise ServiceFault("topic: a printable text of 1 to 255 characters is expected")
        if topic.startswith(_RESERVED):
            raise ServiceFault(f"topic: the prefixes {' and '.join(_RESERVED)} are reserved")
        self._note(Kind.PUBLISHED, topic, event, PeerId(session.client))
        return {"status": "published"}

    def _files_changed(self) -> None:
        log.info("inventory files read", version=self._inventory.version)
        self._note(Kind.CHANGED, "inventory files changed", {})
        self._declare_resources()

    def _note(self, kind: Kind, detail: str, event: object, peer: PeerId | None = None) -> None:
        body = Body("nfp", (msgspec.json.encode(event),))
        self._loop.submit(Noted(kind, peer, detail, body, dialect="local"))

    def _reveal(self, effect: SendReply) -> SendReply:
        """Put the secrets into an inventory that is sent to its worker."""
        if effect.kind is not ReplyKind.FINAL or effect.body.dialect != "local":
            return effect
        is_secret, found, trouble = reveal_or_error(self.sid, effect.job)
        if not is_secret:
            return effect
        if trouble:
            log.error("cannot read a secret of the inventory", job=effect.job, reason=trouble)
        fault = Fault(FaultCode.TASK_FAILED, trouble) if trouble else None
        return self._answering(effect, Answer(found, fault=fault))

    def _fill_events(self, effect: SendReply) -> SendReply:
        """Put the events into the answer to a poll; the ledger holds only the position."""
        if effect.kind is not ReplyKind.FINAL:
            return effect
        found = self.event_poll.take_found(effect.job)
        return effect if found is None else self._answering(effect, Answer(found))

    def _answering(self, effect: SendReply, answer: Answer) -> SendReply:
        return replace(effect, body=self._codec.write_answer(answer), fault=answer.fault)


def relaxed_services() -> tuple[str, ...]:
    """Return the services whose calls do not wait for the disk."""
    return with_capitals(MANAGEMENT, INVENTORY)


def with_capitals(*names: str) -> tuple[str, ...]:
    """Return names as they are and in capitals, as ZSS writes them."""
    return (*names, *(name.upper() for name in names))
