"""Broker URLs. One URL names dialect and endpoint: `nfp://host:5555`, `https://host:8420`.

Some dialects accept a user or token before the host (`ncl://token@host`) and query parameters
(`?heartbeat_interval=5`).
"""

from urllib.parse import parse_qsl, urlsplit

from dragoman.dialects.listeners import CLIENT_PORTS, WORKER_PORTS
from dragoman.model.value import value

__all__ = ["WORKER_PORTS", "Endpoint", "parse_url"]


@value
class Endpoint:
    """A broker's dialect and address."""

    dialect: str
    address: str
    #: The query parameters of the URL, in order.
    options: tuple[tuple[str, str], ...] = ()
    #: Whether the URL is `https://`.
    is_secure: bool = False

    def __str__(self) -> str:
        """Return the URL without user, token and query parameters."""
        dialect = "https" if self.is_secure else self.dialect
        return f"{dialect}://{self.address.partition('://')[2].rpartition('@')[2]}"


def parse_url(url: str, ports: "dict[str, int]" = CLIENT_PORTS) -> Endpoint:
    """Parse a URL. Raises ValueError with a message for the user."""
    scheme, mark, rest = url.partition("://")
    is_secure = scheme == "https"
    dialect = "http" if is_secure else scheme
    if not mark or dialect not in ports:
        schemes = ", ".join(ports)
        raise ValueError(f"{url!r} is not a broker URL; use SCHEME://host:port with {schemes}")
    if rest.startswith("/"):
        return Endpoint(dialect, f"ipc://{rest}")
    parts = urlsplit(f"//{rest}")
    try:
        port = parts.port or ports[dialect]
    except ValueError as error:
        raise ValueError(f"{url!r}: {error}") from None
    if not parts.hostname:
        raise ValueError(f"{url!r} names no host")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    secret = parts.netloc.rpartition("@")[0]
    if secret:
        host = f"{secret}@{host}"
    return Endpoint(dialect, f"tcp://{host}:{port}", tuple(parse_qsl(parts.query)), is_secure)
