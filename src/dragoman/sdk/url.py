"""One URL names dialect and endpoint: `nfp://host:5555`, `https://host:8420`, ...

A user or token before the host (`ncl://token@host`) and options after it (`?heartbeat_interval=5`)
are for the dialects that know some.
"""

from typing import Final
from urllib.parse import parse_qsl, urlsplit

from dragoman.model.value import value

#: Dialects and the port each has when a URL names none.
PORTS: Final = {"nfp": 5555, "dcp": 5566, "zss": 7777, "memo": 12703, "ncl": 4222, "http": 8420}
#: ZSS services have a port of their own.
WORKER_PORTS: Final = {**PORTS, "zss": 7776}


@value
class Endpoint:
    """Where a broker is and what to speak there."""

    dialect: str
    address: str
    #: What the URL says after its question mark, in order.
    options: tuple[tuple[str, str], ...] = ()
    #: Whether the URL itself asks for TLS: `https://`.
    is_secure: bool = False

    def __str__(self) -> str:
        """Return the URL without what is secret in it."""
        dialect = "https" if self.is_secure else self.dialect
        return f"{dialect}://{self.address.partition('://')[2].rpartition('@')[2]}"


def parse_url(url: str, ports: "dict[str, int]" = PORTS) -> Endpoint:
    """Read a URL. Raises ValueError with a sentence a user can act on."""
    said, mark, rest = url.partition("://")
    is_secure = said == "https"
    dialect = "http" if is_secure else said
    if not mark or dialect not in ports:
        raise ValueError(f"{url!r} is no broker URL; use one of {', '.join(ports)} :// host:port")
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
