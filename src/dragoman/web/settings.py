"""Settings of the web application."""

from dragoman.model.value import value


@value
class WebSettings:
    """All times are in seconds."""

    #: Largest request body, in bytes.
    max_body: int = 64 * 1024 * 1024
    #: Longest wait of a long poll.
    long_poll: float = 60.0
    #: How long a job may take if its request has no timeout.
    timeout: float = 600.0
    #: Interval of the comments on an idle event stream.
    heartbeat: float = 15.0
    #: Heartbeat interval of workers; a waiting poll counts as a heartbeat.
    beat_every: float = 5.0
    missed_allowed: int = 6
    #: How long request headers, and then a body, may take to arrive.
    header_timeout: float = 10.0
    body_timeout: float = 60.0
    #: How long an idle connection stays open.
    keep_alive: float = 75.0
    #: How long an event stream's reader may take no data before the stream ends.
    stalled: float = 30.0
    #: Most connections at a time; one more gets 503.
    connections: int = 1000
    #: Most events buffered for one reader of the ledger.
    stream_window: int = 1000
    #: Host names that requests may use, beside the loopback names.
    hosts: tuple[str, ...] = ()
