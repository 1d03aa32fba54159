"""The services of the house: which there are, and what of the broker each is given."""

from typing import Any, Final

import msgspec
import structlog

from dragoman.core.effects import SendReply
from dragoman.core.events import Noted, ReplyKind
from dragoman.dialects.local.dress import Dress
from dragoman.model.body import Body
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.record import Kind
from dragoman.server.control import Control
from dragoman.server.loop import Loop
from dragoman.server.management import Sight
from dragoman.server.settings import Settings
from dragoman.services.base import Hosted
from dragoman.services.fss import FILES, FILESHARING, FileService
from dragoman.services.inventory import Change, Inventory
from dragoman.services.logs import LogBook
from dragoman.services.masks import masked
from dragoman.services.mmi import MANAGEMENT, BrokerManagement
from dragoman.services.shelf import Shelf
from dragoman.services.sid import INVENTORY, InventoryService, reveal_or_say

log = structlog.get_logger("dragoman.house")

#: Names of the house's workers, which results are keyed by where a dialect does so.
BROKER: Final = "broker"
FILE_KEEPER: Final = "files"


class House:
    """All built-in services of one broker."""

    def __init__(
        self,
        settings: Settings,
        inventory: Inventory,
        loop: Loop,
        sight: Sight,
        control: Control,
        logs: LogBook,
    ) -> None:
        self._loop = loop
        self._inventory = inventory
        self._dress = Dress()
        self.sid = InventoryService(
            inventory,
            loop.clock.now,
            lambda: [w.name for w in sight.workers()],
            self._changed,
            self._files_changed,
        )
        self.mmi = BrokerManagement(sight, control, logs, self.sid.broker)
        files = settings.files
        shelf = Shelf(files.roots, frozenset(files.writable), files.largest_put)
        self.fss = FileService(shelf)
        self._shares = bool(files.roots)
        for name in shouted(INVENTORY):
            loop.reveal[name] = self._reveal

    def services(self) -> list[Hosted]:
        """Return what is to be hosted."""
        files = (FILES, FILESHARING) if self._shares else (FILES,)
        return [
            Hosted(BROKER, shouted(MANAGEMENT), self.mmi.desk),
            Hosted("inventory", shouted(INVENTORY), self.sid.desk),
            Hosted(FILE_KEEPER, shouted(*files), self.fss.desk),
        ]

    def close(self) -> None:
        """Let go of threads."""
        self.fss.close()

    # --- inventory ----------------------------------------------------------------------------

    def _changed(self, change: Change, workers: list[str]) -> None:
        """Put a change on record, and tell the workers it concerns by an event each."""
        told = masked(change.told())
        what = f"undo of {change.undoes}" if change.undoes else f"by {change.by}"
        self._note(Kind.CHANGED, f"inventory version {change.version}, {what}", told)
        paths = [".".join((o.pattern, *o.path)) for o in change.operations]
        for worker in workers:
            event = {"worker": worker, "version": change.version, "paths": paths}
            self._note(Kind.PUBLISHED, f"inventory.{worker}", event)

    def _files_changed(self) -> None:
        log.info("inventory files read", version=self._inventory.version)
        self._note(Kind.CHANGED, "inventory files read again", {})

    def _note(self, kind: Kind, detail: str, event: Any) -> None:
        body = Body("nfp", (msgspec.json.encode(event),))
        self._loop.submit(Noted(kind, detail=detail, body=body, dialect="local"))

    def _reveal(self, effect: SendReply) -> SendReply:
        """Complete an inventory on its way to the worker it is for."""
        if effect.kind is not ReplyKind.FINAL or effect.body.dialect != "local":
            return effect
        is_secret, found, trouble = reveal_or_say(self.sid, effect.job)
        if not is_secret:
            return effect
        if trouble:
            log.error("a secret of the inventory is missing", reason=trouble)
        fault = Fault(FaultCode.TASK_FAILED, trouble) if trouble else None
        body = self._dress.write_answer(Answer(found, fault=fault))
        return SendReply(
            effect.client,
            effect.job,
            effect.kind,
            effect.service,
            effect.worker,
            body,
            fault,
            effect.workers,
            effect.state,
            is_strict=effect.is_strict,
        )


def shouted(*names: str) -> tuple[str, ...]:
    """Return names as they are and in capitals: ZSS shouts its names."""
    return (*names, *(name.upper() for name in names))
