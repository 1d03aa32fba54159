"""Broker URLs. One URL names dialect and endpoint: `nfp://host:5555`, `https://host:8420`.

A broker with several addresses has them all in one URL: `nfp://a:5555,b:5555`. Some dialects accept
a user or token before the host (`ncl://token@host`) and query parameters (`?heartbeat_interval=5`).
"""

from urllib.parse import parse_qsl, urlsplit

from dragoman.dialects.listeners import CLIENT_PORTS, WORKER_PORTS
from dragoman.model.value import value
from dragoman.transports.addresses import split_addresses

__all__ = ["WORKER_PORTS", "Endpoint", "parse_url"]


@value
class Endpoint:
    """A broker's dialect and address. Several addresses are separated by commas."""

    dialect: str
    address: str
    #: The query parameters of the URL, in order.
    options: tuple[tuple[str, str], ...] = ()
    #: Whether the URL is `https://`.
    is_secure: bool = False

    def alternatives(self) -> "list[Endpoint]":
        """Return one endpoint for each address."""
        each = split_addresses(self.address)
        return [Endpoint(self.dialect, one, self.options, self.is_secure) for one in each]

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
    secret, mark, hosts = parts.netloc.rpartition("@")
    places = [_host_and_port(url, host, ports[dialect]) for host in hosts.split(",")]
    address = f"tcp://{secret}{mark}{','.join(places)}"
    return Endpoint(dialect, address, tuple(parse_qsl(parts.query)), is_secure)


def _host_and_port(url: str, text: str, usual: int) -> str:
    parts = urlsplit(f"//{text}")
    try:
        port = parts.port or usual
    except ValueError as error:
        raise ValueError(f"{url!r}: {error}") from None
    if not parts.hostname:
        raise ValueError(f"{url!r} names no host")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port}"
