"""Settings of the HTTP link and of its web application."""

from dragoman.model.setting import setting
from dragoman.model.value import value


@value
class HttpSettings:
    """All times are in seconds."""

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
    patience: float | None = setting(
        default=None,
        ge=0,
        help="Seconds that a job waits if no worker can take it. Not set: until its own timeout.",
    )
    #: Final reports remembered, so that a repeated one is recognised.
    remembered: int = 10_000
    max_body: int = setting(default=64 * 1024 * 1024, ge=1, help="Largest request body, in bytes.")
    long_poll: float = setting(default=60.0, gt=0, help="Longest wait of a long poll, in seconds.")
    heartbeat: float = setting(
        default=15.0, gt=0, help="Seconds between two comments on an idle event stream."
    )
    header_timeout: float = setting(
        default=10.0, gt=0, help="Seconds that request headers may take to arrive."
    )
    body_timeout: float = setting(
        default=60.0, gt=0, help="Seconds that a request body may take to arrive."
    )
    keep_alive: float = setting(
        default=75.0, gt=0, help="Seconds that an idle connection stays open."
    )
    stalled: float = setting(
        default=30.0,
        gt=0,
        help="Seconds that a reader of an event stream may take no data before the stream ends.",
    )
    connections: int = setting(
        default=1000,
        ge=1,
        help="Most connections. The one that takes longest to send its request gives way; if all"
        " have sent theirs, one more gets 503.",
    )
    stream_window: int = setting(
        default=1000, ge=1, help="Most events buffered for one reader of the ledger."
    )
    hosts: tuple[str, ...] = setting(
        default=(), help="Host names that requests may use, beside the loopback names."
    )
