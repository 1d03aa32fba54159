"""Settings of an NFP link, and the names of the services that the broker reserves."""

from typing import Final

from dragoman.model.value import value

MANAGEMENT: Final = "mmi.service.broker"
INVENTORY: Final = "sid.service.broker"
EVENTS: Final = "events.service.broker"
FILES: Final = "fss.service.broker"
WORKERS: Final = "mmi.service.worker"
#: Services that no worker may register: the broker serves them, or the name has another meaning.
RESERVED: Final = frozenset({MANAGEMENT, INVENTORY, EVENTS, FILES, WORKERS, "all", ""})


@value
class NfpSettings:
    """Policy and bounds of one link. Times are in seconds."""

    #: Jobs that one worker may hold. Other jobs wait in the broker's durable queue, so the ZeroMQ
    #: queue of a stalled worker (1000 messages each way) never overflows.
    worker_credit: int = 100
    #: NorFab's values: workers and broker give each other up after six intervals of 2.5 s.
    beat_every: float = 2.5
    missed_allowed: int = 6
    #: The time-out of a job whose body names none.
    timeout: float = 600.0
    #: How long a job waits if no worker can take it. 0 refuses it at once, as NorFab does.
    patience: float = 60.0
    #: How often the worker of a silent job is polled for the result.
    poll_every: float = 10.0
    max_body: int = 64 * 1024 * 1024
    #: Bytes in a job id, a service name or a worker name.
    max_name: int = 256
    #: Peers whose variant and declarations are remembered; the oldest is forgotten first.
    remembered_peers: int = 65_536
    #: Jobs whose announced workers and targets are remembered; the oldest is forgotten first.
    remembered_jobs: int = 100_000

    @property
    def hold(self) -> float:
        """Return how long a silent worker counts as alive."""
        return self.beat_every * self.missed_allowed
