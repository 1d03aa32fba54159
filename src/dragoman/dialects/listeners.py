"""The table of listeners: names, dialects and default ports, in one place.

The settings (`[listen]`), the flags of `dragoman up`, the files of `dragoman init` and the default
ports of URLs are made from it.
"""

from typing import Final

from dragoman.model.value import value

OFF: Final = "off"


@value
class ListenerSpec:
    """One listener of the broker."""

    #: Its name in the settings, in flags and in the ready file.
    name: str
    #: The dialect of its peers, which is the scheme of their URLs.
    dialect: str
    port: int
    #: What connects there, for help texts.
    peers: str
    #: The scheme of its endpoint.
    scheme: str = "tcp"
    #: Whether clients connect there, and whether workers do.
    has_clients: bool = True
    has_workers: bool = True
    #: The default endpoint, if it is not this port on the loopback.
    endpoint: str | None = None
    #: Its default in words, if it is not an endpoint.
    note: str = ""

    @property
    def default(self) -> str:
        """Return the default endpoint."""
        own = f"{self.scheme}://127.0.0.1:{self.port}"
        return own if self.endpoint is None else self.endpoint

    def complete(self, endpoint: str) -> str:
        """Add the scheme to an endpoint that has none; HTTP takes `tcp://` too."""
        if endpoint in (OFF, "") or ("://" in endpoint and not endpoint.startswith("tcp://")):
            return endpoint
        return f"{self.scheme}://{endpoint.removeprefix('tcp://')}"


LISTENERS: Final = (
    ListenerSpec("nfp", "nfp", 5555, "NFP clients and workers"),
    ListenerSpec("dcp", "dcp", 5566, "DCP clients and workers"),
    ListenerSpec("zss", "zss", 7777, "ZSS clients", has_workers=False),
    ListenerSpec("zss_backend", "zss", 7776, "ZSS services", has_clients=False),
    ListenerSpec("memo", "memo", 12703, "memo01 clients and workers"),
    ListenerSpec(
        "nats",
        "ncl",
        4222,
        "NCL compute nodes",
        has_clients=False,
        endpoint="",
        note=" Default: the broker's own nats-server on 127.0.0.1, port 4222 if free. `nats://` or"
        " `tls://` names another server.",
    ),
    ListenerSpec("http", "http", 8420, "HTTP clients and workers", scheme="http"),
)

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
    return next(each for each in LISTENERS if each.name == name)
