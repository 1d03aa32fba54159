"""The command `dragoman top`."""

from typing import Final
from urllib.parse import urlsplit

from dragoman.cli.output import DEFAULT_URL, URL
from dragoman.cli.top.source import TopSource
from dragoman.sdk.credentials import find_credentials

_HTTP_PORT: Final = 8420
_MISSING: Final = "`dragoman top` needs Textual; install it with: pip install 'dragoman[top]'"


def http_url(url: str) -> str:
    """Return the HTTP URL of a broker: as given, or the usual port of the same host."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        return url
    return f"http://{parts.hostname or '127.0.0.1'}:{_HTTP_PORT}"


def top(url: str = URL) -> None:
    """Watch a broker in the terminal: services, workers, jobs and rates.

    Reads the broker's HTTP link: give its URL (http://host:8420), or any URL of the broker if HTTP
    is on its usual port. Keys: s, w, j choose a table; Enter opens a row; y says why a job is in
    its state; c twice cancels it; q quits.
    """
    try:
        from dragoman.cli.top.view import TopApp
    except ImportError:
        raise ValueError(_MISSING) from None
    source = TopSource(http_url(url or DEFAULT_URL), find_credentials(None))
    source.overview()
    TopApp(source).run()
