"""The table of listeners: names, dialects and default ports, from the descriptors of the dialects.

The settings (`[listen]`), the flags of `dragoman up`, the files of `dragoman init` and the default
ports of URLs are made from it.
"""

from typing import Final

from dragoman.dialects.descriptor import OFF, ListenerSpec
from dragoman.dialects.mesh.settings import LISTENER as MESH
from dragoman.dialects.registry import DIALECTS

__all__ = [
    "ALL_LISTENERS",
    "CLIENT_PORTS",
    "LISTENERS",
    "OFF",
    "WORKER_PORTS",
    "ListenerSpec",
    "listener",
]

LISTENERS: Final = tuple(each for dialect in DIALECTS.values() for each in dialect.listeners)
#: Those of peers, and that of other brokers.
ALL_LISTENERS: Final = (*LISTENERS, MESH)

#: The default port of a URL, by dialect: for clients, and for workers.
CLIENT_PORTS: Final = {
    **{each.dialect: each.port for each in LISTENERS},
    **{each.dialect: each.port for each in LISTENERS if each.has_clients},
}
WORKER_PORTS: Final = {
    **CLIENT_PORTS,
    **{each.dialect: each.port for each in LISTENERS if each.has_workers},
}


def listener(name: str) -> ListenerSpec:
    """Return a listener by name."""
    return next(each for each in ALL_LISTENERS if each.name == name)
