"""Settings of the web application."""

from dragoman.dialects.http.settings import HttpSettings
from dragoman.model.setting import setting
from dragoman.model.value import value


@value
class WebSettings(HttpSettings):
    """All times are in seconds."""

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
    connections: int = setting(default=1000, ge=1, help="Most connections; one more gets 503.")
    stream_window: int = setting(
        default=1000, ge=1, help="Most events buffered for one reader of the ledger."
    )
    hosts: tuple[str, ...] = setting(
        default=(), help="Host names that requests may use, beside the loopback names."
    )
