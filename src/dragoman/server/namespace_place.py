"""The place of one server among the namespaces of its process."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.services.mmi import BrokerManagement

if TYPE_CHECKING:
    from dragoman.server.shared_listeners import SharedListeners


class NamespacePlace:
    """Its name, how many there are, and the listeners that they share."""

    def __init__(self, name: str, count: int, shared: "SharedListeners | None") -> None:
        self.name = name
        #: Each takes this part of the memory.
        self.count = count
        #: None: every namespace has its own listeners only.
        self.shared = shared
        #: Returns whether each other namespace serves; only the default one may tell.
        self.states: Callable[[], dict[str, str]] | None = None

    def extend(self, management: BrokerManagement) -> None:
        """Have the status of the default namespace list the others."""
        states = self.states
        if states is not None:
            own = management.show_status
            management.tasks.add({"show_status": lambda: {**own(), "namespaces": states()}})

    def is_elsewhere(self, key: str) -> bool:
        """Tell whether another namespace has a key."""
        return self.shared is not None and self.shared.keys.is_elsewhere(self.name, key)
