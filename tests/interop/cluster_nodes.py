"""Three nodes of a cluster as processes, each on a loopback address of its own."""

import json
import os
import signal
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from tests.interop.harness import DRAGOMAN, Fleet, Process, run_dragoman, until

from dragoman.dialects.listeners import LISTENERS
from dragoman.dialects.registry import DIALECTS
from dragoman.testing.fabric import free_port

#: Node names and their addresses.
HOSTS: Final = {"a": "127.0.0.2", "b": "127.0.0.3", "c": "127.0.0.4"}
#: Long enough for three nodes to find each other on a busy machine.
PATIENCE: Final = 60.0


class Node(Process):
    """One node: `dragoman up --cluster`."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.folder = cluster.folder / name
        self.folder.mkdir()
        self.data = self.folder / "data"
        self.config = self.folder / "dragoman.toml"
        others = [each for each in HOSTS if each != name]
        lines = ["[listen]"]
        for each in LISTENERS:
            place = cluster.places[name].get(each.name)
            lines.append(f'{each.name} = "{"off" if place is None else f"tcp://{place}"}"')
        lines += ["[cluster]", 'name = "test"', f'node = "{name}"']
        lines += [f'listen = "{cluster.routes[name]}"', f'token = "{cluster.token_file}"']
        lines += [f"join = {json.dumps([cluster.routes[other] for other in others])}"]
        self.config.write_text("\n".join(lines) + "\n" + cluster.settings)
        super().__init__(
            [DRAGOMAN, "up", "--config", str(self.config), "--data", str(self.data)],
            cluster.folder / f"node-{name}.log",
        )

    def start(self) -> None:
        """Start again on the same data, after `stop` or `kill`."""
        assert not self.is_running
        self.popen = self._start()

    def freeze_all(self) -> list[int]:
        """Stop the broker and its nats-server, as if the machine stood still."""
        # The broker first: it would start a nats-server that does not answer again.
        pids = [self.pid, *self.children()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        return pids

    def thaw_all(self, pids: list[int]) -> None:
        """Let all go on."""
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def children(self) -> list[int]:
        """Return the processes that the broker started: its nats-servers."""
        found = Path("/proc").glob(f"{self.pid}/task/*/children")
        return [int(pid) for path in found for pid in path.read_text().split()]

    def cli(self, *words: str, at_most: float = 30.0) -> tuple[int, Any]:
        """Run a `dragoman cluster` command on this node; return exit code and JSON."""
        where = ["--config", str(self.config), "--data", str(self.data), "--json"]
        done = run_dragoman("cluster", *words, *where, at_most=at_most)
        # A node that has just been started does not answer yet.
        return done.returncode, json.loads(done.stdout) if done.stdout else {"leaders": []}


class Cluster:
    """Three nodes and their addresses."""

    def __init__(self, fleet: Fleet, links: tuple[str, ...], settings: str = "") -> None:
        self.folder = fleet.folder
        self.settings = settings
        self.token_file = fleet.folder / "cluster.token"
        assert run_dragoman("cluster", "token", str(self.token_file)).returncode == 0
        self.places = {
            name: {link: f"{host}:{free_port(host)}" for link in links}
            for name, host in HOSTS.items()
        }
        self.routes = {name: f"{host}:{free_port(host)}" for name, host in HOSTS.items()}
        self.nodes: dict[str, Node] = {}
        for name in HOSTS:
            self.nodes[name] = node = Node(self, name)
            fleet.processes.append(node)

    def url(self, dialect: str, *, for_workers: bool = False, first: str = "a") -> str:
        """Return the URL with the addresses of all nodes, one of them first."""
        found = DIALECTS[dialect]
        link = (found.worker_listener if for_workers else found.client_listener).name
        names = [first, *(name for name in HOSTS if name != first)]
        return f"{dialect}://{','.join(self.places[name][link] for name in names)}"

    def one_url(self, dialect: str, name: str, *, for_workers: bool = False) -> str:
        """Return the URL of one node."""
        found = DIALECTS[dialect]
        link = (found.worker_listener if for_workers else found.client_listener).name
        return f"{dialect}://{self.places[name][link]}"

    def get(self, name: str, path: str) -> str:
        """Make an HTTP request to one node."""
        with urlopen(f"{self.one_url('http', name)}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def until_led(self, *asked: str, other_than: str = "") -> str:
        """Wait until one of the running nodes leads; return its name."""
        names = [name for name in asked or HOSTS if self.nodes[name].is_running]

        def leader() -> str:
            for name in names:
                _, found = self.nodes[name].cli("status", "--within", "1")
                leaders = [each for each in found["leaders"] if each != other_than]
                if len(leaders) == 1:
                    return str(leaders[0])
            return ""

        return until(leader, "a node leads", PATIENCE, every=0.2)

    def until_all_answer(self) -> None:
        """Wait until one node leads and all follow."""

        def well() -> bool:
            return any(node.cli("status")[0] == 0 for node in self.nodes.values())

        until(well, "one node leads and all answer", PATIENCE, every=0.2)

    def until_equal(self) -> dict[str, Any]:
        """Wait until the copies of all nodes are equal."""

        def equal() -> Any:
            code, found = self.nodes["a"].cli("verify")
            return found if code == 0 else None

        return dict(until(equal, "all copies are equal", PATIENCE, every=0.5))

    def standbys(self, leader: str) -> list[str]:
        return [name for name in HOSTS if name != leader]
