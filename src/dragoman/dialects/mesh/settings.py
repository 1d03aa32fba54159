"""What a broker imports from a neighbour and exports to it, and how long it waits for it."""

from fnmatch import fnmatchcase
from typing import Final

from dragoman.dialects.descriptor import ListenerSpec
from dragoman.model.setting import setting
from dragoman.model.value import value

#: The link of all neighbours, and the name of its listener.
NAME: Final = "mesh"
LISTENER: Final = ListenerSpec(NAME, NAME, 5570, "other brokers", endpoint="off")
#: Seconds between two heartbeats, and of silence after which a neighbour is lost.
BEAT_EVERY: Final = 1.0
HOLD: Final = 5.0
#: Seconds without news of a job before its result is asked for: a message may have been lost.
POLL_EVERY: Final = 15.0
#: Brokers that one broker knows; further ones are refused.
MOST_NEIGHBOURS: Final = 1000


@value
class NeighbourTerms:
    """Brokers that work for this one, and this one for them; see `docs/mesh.md`."""

    url: str = setting(
        default="",
        help="Where to connect to, as `mesh://HOST:PORT`. Empty: the broker of this name connects "
        "to this one.",
    )
    server_key: str = setting(
        default="",
        help="The public CURVE key of the broker at `url`. This broker proves its own key "
        "(`credentials.curve`).",
    )
    imports: tuple[str, ...] = setting(
        default=("*",),
        help="Services to take from it, as globs; none: it gets work from here only.",
    )
    exports: tuple[str, ...] = setting(
        default=("*",), help="Services to offer it, as globs; none: it works for this one only."
    )
    credit: int = setting(
        default=100, ge=1, help="Jobs of one service that it may have at a time, at most."
    )
    lease: float = setting(
        default=120.0,
        ge=15,
        help="Seconds that its jobs wait for it if the link breaks; then they go elsewhere.",
    )

    def takes(self, service: str) -> bool:
        """Tell whether a service is taken from the neighbour."""
        return any(fnmatchcase(service, glob) for glob in self.imports)

    def gives(self, service: str) -> bool:
        """Tell whether a service is offered to the neighbour."""
        return any(fnmatchcase(service, glob) for glob in self.exports)
