"""Inventory for workers, `sid.service.broker`.

Only the worker itself gets its secrets. The ledger records the answer of this service like any
job's result, so the service masks it. While the server sends the answer to the worker, it puts the
secrets in (`reveal`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Final

from dragoman.services.base import ServiceFault, ServiceSession, TaskTable
from dragoman.services.inventory import (
    Inventory,
    InventoryChange,
    InventoryRefused,
    find,
    read_path,
)
from dragoman.services.inventory_files import BrokenInventory
from dragoman.services.secret_references import SecretNotFound, SecretSources

INVENTORY: Final = "sid.service.broker"
#: Answers that wait to be sent with their secrets.
_MOST: Final = 10_000
#: The suffix of NorFab's workers when they call as clients.
_AS_CLIENT: Final = "-NFPClient"

#: Called after every change, with the names of the workers concerned.
OnChange = Callable[[InventoryChange, list[str]], None]

#: The keys of NorFab's inventory.
_NORFAB_KEYS: Final = ("broker", "workers", "topology", "logging", "client", "hooks", "plugins")


class InventoryService:
    """The tasks of the inventory service."""

    def __init__(
        self,
        inventory: Inventory,
        now: Callable[[], float],
        workers: Callable[[], list[str]],
        on_change: OnChange,
        on_files: Callable[[], None],
        sources: SecretSources | None = None,
    ) -> None:
        self._inventory = inventory
        self._sources = sources or SecretSources()
        self._now = now
        self._workers = workers
        self._on_change = on_change
        self._on_files = on_files
        #: Tells whether a client is the worker of a name, which may have its secrets.
        self.is_worker: Callable[[str, str], bool] = is_worker
        #: Job -> the worker that asked for its own inventory.
        self._asked: OrderedDict[str, str] = OrderedDict()
        self.tasks = TaskTable(
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

    async def get_inventory(self, session: ServiceSession, name: str) -> dict[str, object] | None:
        """Return the inventory of a worker, masked; None if it has none."""
        await self._refresh()
        found = self._of(name)
        if found is None:
            return None
        masks = self._inventory.masks
        if masks.has_secrets(found) and self.is_worker(session.client, name):
            self._asked[session.job] = name
            if len(self._asked) > _MOST:
                self._asked.popitem(last=False)
        return masks.masked(found)  # type: ignore[no-any-return]

    def _of(self, name: str) -> dict[str, object] | None:
        """Return a worker's object. A broken file fails this worker, not the broker."""
        try:
            return self._inventory.of(name)
        except BrokenInventory as error:
            raise ServiceFault(f"the inventory of {name}: {error}") from None

    def reveal(self, job: str) -> tuple[bool, object]:
        """Return (True, the inventory with its secrets) if this job may have them."""
        name = self._asked.pop(job, None)
        if name is None:
            return False, None
        return True, self._sources.revealed(self._inventory.of(name))

    async def show(self) -> dict[str, object]:
        """Return the patterns, the version and the error in the files, if any."""
        await self._refresh()
        return {
            "version": self._inventory.version,
            "patterns": self._inventory.patterns(),
            "trouble": self._inventory.trouble,
        }

    def broker(self) -> dict[str, object]:
        """Return the inventory in NorFab's form, masked: all of its keys, workers by pattern."""
        found: dict[str, object] = {key: {} for key in _NORFAB_KEYS}
        found |= {"workers": self._inventory.by_pattern()} | dict(self._inventory.others)
        return self._inventory.masks.masked(found)  # type: ignore[no-any-return]

    async def get(self, name: str, path: object = "") -> object:
        """Return the value at a path of a worker's inventory, masked."""
        await self._refresh()
        try:
            masked = self._inventory.masks.masked(self._of(name))
            return find(masked, read_path(path))
        except InventoryRefused as error:
            raise ServiceFault(f"{name}: {error}") from None

    def history(self, limit: int = 100) -> object:
        """Return the last changes, masked."""
        return self._inventory.history(limit)

    # --- changes ------------------------------------------------------------------------------

    async def set(
        self,
        session: ServiceSession,
        pattern: str,
        path: object,
        value: object,
        version: int | None = None,
    ) -> dict[str, object]:
        """Set the value at a path for every worker that matches a pattern."""
        operation = {"op": "set", "pattern": pattern, "path": path, "value": value}
        return await self.change(session, [operation], version)

    async def delete(
        self, session: ServiceSession, pattern: str, path: object, version: int | None = None
    ) -> dict[str, object]:
        """Delete the value at a path for every worker that matches a pattern."""
        operation = {"op": "delete", "pattern": pattern, "path": path}
        return await self.change(session, [operation], version)

    async def change(
        self, session: ServiceSession, operations: list[object], version: int | None = None
    ) -> dict[str, object]:
        """Apply several operations as one; with `version`, only if that is the last version."""
        return await self._make(
            self._inventory.change, operations, session.client, self._now(), version
        )

    async def undo(self, session: ServiceSession, version: int | None = None) -> dict[str, object]:
        """Undo a change: the given one, or the last in force."""
        return await self._make(self._inventory.undo, version, session.client, self._now())

    async def _make(self, make: Callable[..., InventoryChange], *args: object) -> dict[str, object]:
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

    async def reload(self) -> dict[str, object]:
        """Read the files again; if they are broken, name the place and keep the last good ones."""
        try:
            is_new = await asyncio.to_thread(self._inventory.reload)
        except BrokenInventory as error:
            raise ServiceFault(f"{error}; the last good inventory stays in force") from None
        if is_new:
            self._on_files()
        return await self.show()

    async def _refresh(self) -> None:
        """Read changed files; `show` reports broken ones, and they are not used."""
        try:
            if await asyncio.to_thread(self._inventory.refresh):
                self._on_files()
        except BrokenInventory:
            pass


def is_worker(client: str, name: str) -> bool:
    """Tell whether a client has the name of a worker, or the name NorFab derives from it."""
    own = client.partition("/")[2]
    return own in (name, name + _AS_CLIENT)


def reveal_or_error(service: InventoryService, job: str) -> tuple[bool, object, str]:
    """Return (whether to replace the answer, the answer, the error)."""
    try:
        is_secret, found = service.reveal(job)
    except SecretNotFound as error:
        return True, None, str(error)
    return is_secret, found, ""
