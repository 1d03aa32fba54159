"""Facts about the broker, for dialects whose management answers have a form of their own.

The server collects them. The protocols name only the fields of the core's view that dialects use.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from dragoman.model.value import field, value


class WorkerFacts(Protocol):
    """One worker of the core's view."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def services(self) -> Sequence[str]:
        """The services that it offers."""

    @property
    def status(self) -> str:
        """`alive`, or another status of the core's view."""

    @property
    def lease(self) -> float | None:
        """How long it may be silent, in seconds."""

    @property
    def silent_for(self) -> float:
        """How long it has been silent, in seconds."""

    @property
    def alive_for(self) -> float:
        """How long it has been registered, in seconds."""

    @property
    def beats(self) -> int:
        """Heartbeats received from it."""


class ServiceFacts(Protocol):
    """One service of the core's view."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def workers(self) -> int:
        """How many workers serve it."""

    @property
    def queued(self) -> int:
        """Queued jobs."""

    @property
    def running(self) -> int:
        """Running jobs."""


class ClientFacts(Protocol):
    """One client of the core's view."""

    @property
    def peer(self) -> str:
        """Its id."""

    @property
    def jobs(self) -> int:
        """Jobs it submitted."""

    @property
    def first_seen_at(self) -> float:
        """When its first message came."""

    @property
    def seen_at(self) -> float:
        """When its last message came."""


@value
class ProcessFacts:
    """Figures of the broker process."""

    cpu_percent: float = 0.0
    memory_rss_mbyte: float = 0.0
    uptime_seconds: int = 0
    open_file_descriptors: int | None = None
    tcp_sockets: int | None = None
    threads: int = 1


@value
class MessageCounts:
    """Message counts since the process started."""

    sent: int = 0
    received: int = 0
    events_received: int = 0
    send_failures: int = 0
    receive_failures: int = 0


@value
class BrokerFacts:
    """A snapshot of the broker for one management call."""

    now: float
    workers: Sequence[WorkerFacts] = ()
    services: Sequence[ServiceFacts] = ()
    clients: Sequence[ClientFacts] = ()
    #: Heartbeats sent, by worker name.
    beats_sent: Mapping[str, int] = field(default_factory=dict)
    name: str = "dragoman"
    endpoint: str = ""
    is_stopping: bool = False
    process: ProcessFacts = ProcessFacts()
    messaging: MessageCounts = MessageCounts()
    #: Package names and versions.
    versions: Mapping[str, str] = field(default_factory=dict)
    directories: Mapping[str, object] = field(default_factory=dict)
    security: Mapping[str, object] = field(default_factory=dict)
