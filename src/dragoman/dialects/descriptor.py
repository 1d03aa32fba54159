"""The descriptor of a dialect: what the server, the SDK, the command line and the tests know of it.

Each dialect folder has a `dialect.py` with `DIALECT`; `registry` lists the folders. A descriptor is
cheap to import. Its methods import the codec, sides and settings of the folder when called, so a
program that uses one dialect does not load the libraries of the others.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

from dragoman.dialects.base import BodyCodec, BodyCodecs, BrokerSide, Frames
from dragoman.dialects.facts import BrokerFacts
from dragoman.dialects.peer_sides import ClientSide, WorkerSide
from dragoman.model.capacity import Capacity
from dragoman.model.value import field, value

OFF: Final = "off"
Ids = Callable[[], str]
Clock = Callable[[], float]
#: Answers one management task in a dialect's own form.
ManagementTask = Callable[[BrokerFacts, Mapping[str, object]], object]


class Carrier(StrEnum):
    """The transport of a dialect. Each has a server end, a peer end and credentials of its own."""

    ZEROMQ = "zeromq"
    SP = "sp"
    NATS = "nats"
    HTTP = "http"


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


@value
class WorkerSpec:
    """What a worker declares."""

    name: str
    services: tuple[str, ...]
    concurrency: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    #: The query of the worker's URL.
    options: tuple[tuple[str, str], ...] = ()

    @property
    def only_service(self) -> str:
        """The service, for dialects whose workers have one service each."""
        if len(self.services) != 1:
            raise ValueError(f"a worker of this dialect offers one service, not {self.services}")
        return self.services[0]


@value
class PeerTools:
    """What the sides of a peer need from outside the pure layers."""

    ids: Ids
    clock: Clock
    #: Opens a store that survives the process: path, number of entries, whether to fsync.
    open_store: Callable[[str, int, bool], Any] | None = None
    #: Measures this machine.
    capacity: Callable[[], Capacity] | None = None


class NodeSubjects(Protocol):
    """Which subjects each node of a NATS dialect may use."""

    def is_node_id(self, name: str) -> bool:
        """Return whether a name can be a node id."""
        ...

    def may_publish(self, node: str) -> tuple[str, ...]:
        """Return the subjects that a node may publish to."""
        ...

    def may_subscribe(self, node: str) -> tuple[str, ...]:
        """Return the subjects that a node may subscribe to."""
        ...

    def node_of(self, subject: str) -> str:
        """Return the node that a subject belongs to; empty if none."""
        ...


class Dialect:
    """One dialect. A folder's descriptor derives from it and overrides what it has."""

    #: Scheme of its URLs, and name of its section in the settings.
    name: str
    carrier: Carrier
    #: Clients use the first listener, workers the last.
    listeners: tuple[ListenerSpec, ...]
    has_clients = True
    #: Whether its broker acknowledges a job before it is done, and with that a strict one.
    acknowledges = False
    #: Whether a request has no field for an idempotency key, so that the key becomes the job id.
    key_is_job_id = False
    #: Whether its workers learn the broker's id of a job, and its clients can send options: then
    #: tasks can have child jobs.
    names_jobs = False
    #: Frames of which one is among the first of each message, to recognise a peer on a wrong port.
    headers: tuple[bytes, ...] = ()
    #: Whether its messages rely on a connection that keeps their order.
    needs_order = False

    @property
    def client_listener(self) -> ListenerSpec:
        """The listener that clients connect to."""
        return self.listeners[0]

    @property
    def worker_listener(self) -> ListenerSpec:
        """The listener that workers connect to."""
        return self.listeners[-1]

    def body_codec(self) -> BodyCodec:
        """Make its body codec."""
        raise NotImplementedError

    def settings_type(self) -> type[object] | None:
        """Return the class of its settings."""
        return None

    def broker_sides(
        self, codecs: BodyCodecs, ids: Ids, settings: object = None
    ) -> tuple[BrokerSide, ...]:
        """Make the broker's ends, one for each listener."""
        raise NotImplementedError

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        raise NotImplementedError

    def worker_side(self, spec: WorkerSpec, tools: PeerTools) -> WorkerSide:
        """Make a worker's end."""
        raise NotImplementedError

    def client_window(self) -> Any:
        """Return what bounds a client's open requests, for a carrier of requests and replies."""
        return None

    def management_tasks(self, settings: object) -> Mapping[str, ManagementTask]:
        """Return the management tasks whose answers have a form of this dialect, by name."""
        return {}

    def node_subjects(self) -> NodeSubjects | None:
        """Return the rules for subjects, of a dialect on NATS."""
        return None

    def fuzz_seeds(self, listener: str) -> list[Frames]:
        """Return valid messages to a listener, for the fuzzer to mutate."""
        return []
