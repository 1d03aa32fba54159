"""A network for the nodes of a cluster: each has an address, and may be cut off from the others.

If root allows, each node gets a network namespace on a bridge. Packets to a node that is cut off
get a wrong hardware address: they vanish, as in a broken switch. Without namespaces the nodes
have addresses of the loopback, and nothing can be cut.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

#: Node names, and the last part of their addresses.
NODES: Final = {"a": 2, "b": 3, "c": 4}
#: The address of the clients.
OUTSIDE: Final = 1
_NOWHERE: Final = "02:00:00:00:00:ff"


class NodeNetwork:
    """Nodes on the loopback."""

    can_cut = False

    def host(self, name: str) -> str:
        """Return the address of a node."""
        return f"127.0.0.{NODES[name]}"

    def command(self, name: str) -> list[str]:
        """Return the words before a command that runs at a node."""
        return []

    def cut(self, some: Iterable[str], others: Iterable[str], *, outside: bool = False) -> None:
        """Lose every packet between some nodes and others; `outside` are the clients."""
        raise NotImplementedError

    def heal(self) -> None:
        """End every cut."""


class NamespaceNetwork(NodeNetwork):
    """Nodes in network namespaces."""

    can_cut = True

    def __init__(self) -> None:
        number = os.getpid()
        self._bridge = f"dgm{number}"
        self._spaces = {name: f"dgm{number}{name}" for name in NODES}
        self._net = f"10.{100 + number % 100}.{number // 100 % 250}"

    def open(self) -> None:
        """Make the namespaces. Raises OSError if this process may not."""
        ip("link", "add", self._bridge, "type", "bridge")
        ip("addr", "add", f"{self._net}.{OUTSIDE}/24", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")
        for name, space in self._spaces.items():
            ip("netns", "add", space)
            cable = f"{self._bridge}v{name}"
            ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", cable, "master", self._bridge, "up")
            ip("-n", space, "addr", "add", f"{self.host(name)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def close(self) -> None:
        """Remove them."""
        for words in (
            ("link", "del", self._bridge),
            *(("netns", "del", s) for s in self._spaces.values()),
        ):
            with contextlib.suppress(OSError):
                ip(*words)

    def host(self, name: str) -> str:
        return f"{self._net}.{NODES[name]}"

    def command(self, name: str) -> list[str]:
        return ["ip", "netns", "exec", self._spaces[name]]

    def cut(self, some: Iterable[str], others: Iterable[str], *, outside: bool = False) -> None:
        for one, other in product(list(some), list(others)):
            self._lose(self._spaces[one], self.host(other))
            self._lose(self._spaces[other], self.host(one))
        for one in some if outside else ():
            self._lose(self._spaces[one], f"{self._net}.{OUTSIDE}")

    def _lose(self, space: str, address: str) -> None:
        words = ("neigh", "replace", address, "lladdr", _NOWHERE, "nud", "permanent")
        ip("-n", space, *words, "dev", "eth0")

    def heal(self) -> None:
        for space in self._spaces.values():
            ip("-n", space, "neigh", "flush", "nud", "permanent", "dev", "eth0")


def ip(*words: str) -> None:
    """Run `ip`. Raises OSError if it fails."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@contextlib.contextmanager
def node_network() -> Iterator[NodeNetwork]:
    """Return namespaces, or the loopback where root does not allow them."""
    made = NamespaceNetwork()
    try:
        if shutil.which("ip") is None or os.geteuid():
            raise OSError("network namespaces need root and iproute2")
        made.open()
    except OSError:
        made.close()
        yield NodeNetwork()
        return
    try:
        yield made
    finally:
        made.heal()
        made.close()
