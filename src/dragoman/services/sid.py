"""Inventory for workers, `sid.service.broker`.

Secrets go to the worker they are for and to nobody else. What this service answers is recorded like
any job's result, so it is masked here; the server reveals the answer on its way out, and only to
the worker itself (`reveal`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Final

from dragoman.services.base import ServiceFault, ServiceSession, TaskTable
from dragoman.services.inventory import (
    Inventory,
    InventoryChange,
    InventoryRefused,
    find,
    read_path,
)
from dragoman.services.inventory_files import BrokenInventory
from dragoman.services.masks import SecretNotFound, has_secrets, masked, revealed

INVENTORY: Final = "sid.service.broker"
#: Answers on their way out that are to be revealed.
_MOST: Final = 10_000
#: What NorFab's workers append to their name when they ask as clients.
_AS_CLIENT: Final = "-NFPClient"

#: Told of every change: the change, and the names of the workers it concerns.
OnChange = Callable[[InventoryChange, list[str]], None]


class InventoryService:
    """The tasks of the inventory service."""

    def __init__(
        self,
        inventory: Inventory,
        now: Callable[[], float],
        workers: Callable[[], list[str]],
        on_change: OnChange,
        on_files: Callable[[], None],
    ) -> None:
        self._inventory = inventory
        self._now = now
        self._workers = workers
        self._on_change = on_change
        self._on_files = on_files
        #: Tells whether a client is the worker of a name, and so may have its secrets.
        self.is_worker: Callable[[str, str], bool] = is_worker
        #: Job -> the worker that asked for its own inventory.
        self._asked: OrderedDict[str, str] = OrderedDict()
        self.desk = TaskTable(
            "inventory",
            {
                "get_inventory": self.get_inventory,
                "show": self.show,
                "get": self.get,
                "set": self.set,
                "delete": self.delete,
                "change": self.change,
                "undo": self.undo,
                "history": self.history,
                "reload": self.reload,
            },
        )

    # --- reading ------------------------------------------------------------------------------

    async def get_inventory(self, session: ServiceSession, name: str) -> dict[str, Any] | None:
        """Return what is said of a worker; None if nothing is."""
        await self._refresh()
        found = self._inventory.of(name)
        if found is not None and has_secrets(found) and self.is_worker(session.client, name):
            self._asked[session.job] = name
            if len(self._asked) > _MOST:
                self._asked.popitem(last=False)
        return masked(found)  # type: ignore[no-any-return]

    def reveal(self, job: str) -> tuple[bool, Any]:
        """Return a worker's inventory with its secrets, if this job may have it."""
        name = self._asked.pop(job, None)
        if name is None:
            return False, None
        return True, revealed(self._inventory.of(name))

    async def show(self) -> dict[str, Any]:
        """Return the patterns, the version and what is wrong with the files, if anything."""
        await self._refresh()
        return {
            "version": self._inventory.version,
            "patterns": self._inventory.patterns(),
            "trouble": self._inventory.trouble,
        }

    def broker(self) -> dict[str, Any]:
        """Return what the files say that is not for workers, without secrets."""
        return masked(dict(self._inventory.others))  # type: ignore[no-any-return]

    async def get(self, name: str, path: Any = "") -> Any:
        """Return what stands at a path of a worker's inventory, without secrets."""
        await self._refresh()
        try:
            return find(masked(self._inventory.of(name)), read_path(path))
        except InventoryRefused as error:
            raise ServiceFault(f"{name}: {error}") from None

    def history(self, limit: int = 100) -> Any:
        """Return the last changes, without secrets."""
        return masked(self._inventory.history(limit))

    # --- changing -----------------------------------------------------------------------------

    async def set(
        self,
        session: ServiceSession,
        pattern: str,
        path: Any,
        value: Any,
        version: int | None = None,
    ) -> dict[str, Any]:
        """Set what stands at a path for every worker that a pattern means."""
        said = {"op": "set", "pattern": pattern, "path": path, "value": value}
        return await self.change(session, [said], version)

    async def delete(
        self, session: ServiceSession, pattern: str, path: Any, version: int | None = None
    ) -> dict[str, Any]:
        """Delete what stands at a path for every worker that a pattern means."""
        said = {"op": "delete", "pattern": pattern, "path": path}
        return await self.change(session, [said], version)

    async def change(
        self, session: ServiceSession, operations: list[Any], version: int | None = None
    ) -> dict[str, Any]:
        """Do several operations as one; with `version`, only if nobody was faster."""
        return await self._make(
            self._inventory.change, operations, session.client, self._now(), version
        )

    async def undo(self, session: ServiceSession, version: int | None = None) -> dict[str, Any]:
        """Take a change back: the given one, or the last that stands."""
        return await self._make(self._inventory.undo, version, session.client, self._now())

    async def _make(self, make: Callable[..., InventoryChange], *args: Any) -> dict[str, Any]:
        try:
            change = await asyncio.to_thread(make, *args)
        except InventoryRefused as error:
            raise ServiceFault(str(error)) from None
        concerned = self._concerned(change)
        self._on_change(change, concerned)
        return {"version": change.version, "undoes": change.undoes, "workers": concerned}

    def _concerned(self, change: InventoryChange) -> list[str]:
        patterns = {o.pattern for o in change.operations}
        return sorted(w for w in self._workers() if any(fnmatchcase(w, p) for p in patterns))

    async def reload(self) -> dict[str, Any]:
        """Read the files again; if they are broken, say where and keep the last good ones."""
        try:
            is_new = await asyncio.to_thread(self._inventory.reload)
        except BrokenInventory as error:
            raise ServiceFault(f"{error}; the last good inventory stays in force") from None
        if is_new:
            self._on_files()
        return await self.show()

    async def _refresh(self) -> None:
        """Follow the files; broken ones are told by `show` and in the log, and not used."""
        try:
            if await asyncio.to_thread(self._inventory.refresh):
                self._on_files()
        except BrokenInventory:
            pass


def is_worker(client: str, name: str) -> bool:
    """Tell whether a client is the worker of that name, as far as its link says who it is."""
    own = client.partition("/")[2]
    return own in (name, name + _AS_CLIENT)


def reveal_or_say(service: InventoryService, job: str) -> tuple[bool, Any, str]:
    """Return (whether to replace the answer, the answer, what is wrong instead)."""
    try:
        is_secret, found = service.reveal(job)
    except SecretNotFound as error:
        return True, None, str(error)
    return is_secret, found, ""
