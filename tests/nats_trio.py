"""Three nats-servers with JetStream on the loopback, as processes of their own."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from dragoman.transports.nats_server import find_binary

CONFIG = """
listen: 127.0.0.1:{client}
server_name: n{number}
jetstream {{ store_dir: "{folder}", sync_interval: always }}
cluster {{ name: trio, listen: "127.0.0.1:{route}", routes: [{routes}] }}
"""


def free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class NatsTrio:
    """Starts the servers in a `with` block; each can be killed, stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clients, self._routes = free_ports(3), free_ports(3)
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * 3

    @property
    def urls(self) -> list[str]:
        """The addresses for clients."""
        return [f"nats://127.0.0.1:{port}" for port in self._clients]

    def pids(self) -> list[int]:
        """Return the process ids of those that run."""
        return [each.pid for each in self._processes if each is not None]

    def start(self, number: int) -> None:
        """Start one server."""
        folder = self._folder / f"n{number}"
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "nats.conf"
        config.write_text(
            CONFIG.format(
                client=self._clients[number],
                number=number,
                folder=folder / "store",
                route=self._routes[number],
                routes=", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes),
            )
        )
        with (folder / "log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                [find_binary(), "-c", str(config)], stdout=log, stderr=log
            )

    def kill(self, number: int) -> None:
        """Kill one server."""
        process, self._processes[number] = self._processes[number], None
        if process is not None:
            process.kill()
            process.wait()

    def signal(self, number: int, which: signal.Signals) -> None:
        """Send a signal to one server."""
        process = self._processes[number]
        assert process is not None
        process.send_signal(which)

    def __enter__(self) -> "NatsTrio":
        for number in range(3):
            self.start(number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in range(3):
            with suppress(OSError):
                self.kill(number)


@contextmanager
def trio(folder: Path) -> Iterator[NatsTrio]:
    """Run three servers while the block lasts."""
    with NatsTrio(folder) as servers:
        yield servers
