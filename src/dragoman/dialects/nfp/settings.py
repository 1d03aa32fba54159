"""What may be set on an NFP link, and the names of the services the broker keeps for itself."""

from typing import Final

from dragoman.model.value import value

MANAGEMENT: Final = "mmi.service.broker"
INVENTORY: Final = "sid.service.broker"
EVENTS: Final = "events.service.broker"
FILES: Final = "fss.service.broker"
WORKERS: Final = "mmi.service.worker"
#: Services no worker may register: the broker answers for them, or their names mean something else.
RESERVED: Final = frozenset({MANAGEMENT, INVENTORY, EVENTS, FILES, WORKERS, "all", ""})


@value
class NfpSettings:
    """Policy and bounds of one link. Spans are in seconds."""

    #: Jobs given to one worker ahead of its results. The rest waits in the broker's durable queue,
    #: so a stalled worker's ZeroMQ queue (1000 messages each way) never overflows.
    worker_credit: int = 100
    #: NorFab's workers give a broker up after six silent intervals of 2.5 s, and it them.
    beat_every: float = 2.5
    missed_allowed: int = 6
    #: A job's time-out when its body names none.
    timeout: float = 600.0
    #: How long a job waits while no worker can take it; 0 refuses it at once, as NorFab does.
    patience: float = 60.0
    #: How often a silent job's worker is asked for the result.
    poll_every: float = 10.0
    max_body: int = 64 * 1024 * 1024
    #: Bytes in a job id, a service name or a worker name.
    max_name: int = 256
    #: Peers whose reading and declarations are remembered; the longest known is forgotten first.
    remembered_peers: int = 65_536
    #: Jobs whose announced workers and targets are remembered, likewise.
    remembered_jobs: int = 100_000

    @property
    def hold(self) -> float:
        """How long a silent worker counts as alive."""
        return self.beat_every * self.missed_allowed
