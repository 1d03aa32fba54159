"""Settings of an NFP link, and the names of the services that the broker reserves."""

from typing import Final

from dragoman.model.setting import setting
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

    worker_credit: int = setting(
        default=100,
        ge=1,
        help="Jobs that one worker may hold. Other jobs wait in the broker's durable queue.",
    )
    first_credit: int = setting(
        default=1,
        ge=1,
        help="Jobs that a worker may hold when it registers, unless it declares its own number. "
        "Each job that it confirms or answers adds one, up to `worker_credit`.",
    )
    beat_every: float = setting(
        default=2.5, gt=0, help="Seconds between two heartbeats. NorFab's value."
    )
    missed_allowed: int = setting(
        default=6,
        ge=1,
        help="Silent heartbeat intervals after which a worker is lost. NorFab's value.",
    )
    timeout: float = setting(
        default=600.0, gt=0, help="Seconds that a job may take if its body names no timeout."
    )
    patience: float | None = setting(
        default=None,
        ge=0,
        help="Seconds that a job waits if no worker can take it. Not set: until its own timeout. "
        "0 refuses it at once, as NorFab does.",
    )
    poll_every: float = setting(
        default=10.0, gt=0, help="Seconds between two polls of a worker whose job is silent."
    )
    max_body: int = setting(default=64 * 1024 * 1024, ge=1, help="Largest message frame, in bytes.")
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
