"""What can be set about the HTTP link."""

from dragoman.model.setting import setting
from dragoman.model.value import value


@value
class HttpSettings:
    """All spans are in seconds."""

    beat_every: float = setting(
        default=5.0,
        gt=0,
        help="Seconds between two heartbeats of a worker; polls and reports count as heartbeats.",
    )
    missed_allowed: int = setting(
        default=6, ge=1, help="Silent heartbeat intervals after which a worker is lost."
    )
    longest_lease: float = setting(
        default=3600.0,
        gt=0,
        help="Longest silence in seconds that a worker may ask for while it holds a job.",
    )
    timeout: float = setting(
        default=600.0, gt=0, help="Seconds that a job may take if its request names no timeout."
    )
    patience: float = setting(
        default=60.0, ge=0, help="Seconds that a job waits if no worker can take it."
    )
    #: Finished reports of workers remembered, so that a second post is recognised.
    remembered: int = 10_000
