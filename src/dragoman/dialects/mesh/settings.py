"""What a broker imports from a neighbour and exports to it, and how long it waits for it."""

from fnmatch import fnmatchcase
from typing import Final

from dragoman.dialects.descriptor import ListenerSpec
from dragoman.model.value import value

#: The link of all neighbours, and the name of its listener.
NAME: Final = "mesh"
LISTENER: Final = ListenerSpec(NAME, NAME, 5570, "other brokers", endpoint="off")
#: Seconds between two heartbeats, and of silence after which a neighbour is lost.
BEAT_EVERY: Final = 1.0
HOLD: Final = 5.0
#: Seconds without news of a job before its result is asked for: a message may have been lost.
POLL_EVERY: Final = 15.0


@value
class NeighbourTerms:
    """The settings of one neighbour."""

    #: Globs of the services that are taken from it, and offered to it.
    imports: tuple[str, ...] = ("*",)
    exports: tuple[str, ...] = ("*",)
    #: The most jobs of one service that it may have at a time.
    credit: int = 100
    #: Seconds that its jobs wait for it when the link is broken.
    lease: float = 120.0

    def takes(self, service: str) -> bool:
        """Tell whether a service is taken from the neighbour."""
        return any(fnmatchcase(service, glob) for glob in self.imports)

    def gives(self, service: str) -> bool:
        """Tell whether a service is offered to the neighbour."""
        return any(fnmatchcase(service, glob) for glob in self.exports)
