"""What can be set about the web application."""

from dragoman.model.value import value


@value
class WebSettings:
    """All spans are in seconds."""

    #: Bytes of the largest body taken in.
    max_body: int = 64 * 1024 * 1024
    #: The longest a request may wait for something to happen.
    long_poll: float = 60.0
    #: How long a job may take when its request does not say.
    timeout: float = 600.0
    #: How often an idle event stream shows that it lives.
    heartbeat: float = 15.0
    #: A worker is to be heard this often; a poll that waits counts as being heard.
    beat_every: float = 5.0
    missed_allowed: int = 6
    #: How long request headers, and then a body, may take to arrive.
    header_timeout: float = 10.0
    body_timeout: float = 60.0
    #: Idle connections are kept for so long.
    keep_alive: float = 75.0
    #: An event stream whose reader takes nothing for so long is ended.
    stalled: float = 30.0
    #: Connections at a time; one more gets 503.
    connections: int = 1000
    #: Events that wait for one reader before no more are taken from the ledger for it.
    stream_window: int = 1000
    #: Names of this host that requests may use, beside its addresses on the loopback.
    hosts: tuple[str, ...] = ()
