"""The addresses of one broker: `tcp://a:5555,b:5555`. A transport uses one and moves on.

A broker with several addresses is a cluster, or one machine with several networks. The next
address is used whenever a connection fails. Small processes import this module: nothing heavy here.
"""

from typing import Final

#: Seconds that an address has to answer before the next one is tried. They double after each round
#: in which no address answered, up to the second number: a broker that is slow must be reachable.
PATIENCE: Final = (2.0, 30.0)


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Return host and port of a `tcp://` endpoint."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return host.strip("[]"), int(port)


def split_addresses(endpoint: str) -> tuple[str, ...]:
    """Return every address of an endpoint, each with its scheme and the user or token."""
    scheme, _, rest = endpoint.partition("://")
    if scheme == "ipc":
        return (endpoint,)
    secret, at, hosts = rest.rpartition("@")
    return tuple(f"{scheme}://{secret}{at}{host}" for host in hosts.split(","))


class Addresses:
    """The addresses in their order, and the current one."""

    def __init__(self, endpoint: str) -> None:
        self.all = split_addresses(endpoint)
        self._at = 0
        #: Addresses in a row that did not answer.
        self._failures = 0

    @property
    def current(self) -> str:
        """The address to connect to."""
        return self.all[self._at]

    @property
    def patience(self) -> float | None:
        """Seconds that the current address has to answer; None: as long as it takes."""
        if len(self.all) == 1:
            return None
        rounds = min(self._failures // len(self.all), 16)
        return min(PATIENCE[0] * (1 << rounds), PATIENCE[1])

    @property
    def have_all_failed(self) -> bool:
        """Whether this attempt is the last of a round in which no address answered."""
        return self._failures + 1 >= len(self.all)

    def answered(self) -> None:
        """Note that the current address works."""
        self._failures = 0

    def move_on(self) -> str:
        """Note that the current address failed; return the next one."""
        self._failures += 1
        self._at = (self._at + 1) % len(self.all)
        return self.current
