"""Three nodes of a cluster as processes, each on an address of its own."""

import json
import os
import signal
import struct
import subprocess
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from tests.interop.cluster_network import NODES, NodeNetwork
from tests.interop.harness import DRAGOMAN, ROOT, Fleet, Process, run_dragoman, until

from dragoman.dialects.listeners import LISTENERS
from dragoman.dialects.registry import DIALECTS
from dragoman.testing.fabric import free_port

HOSTS: Final = tuple(NODES)
_SHIFTED_CLOCK: Final = Path(__file__).with_name("shifted_clock")
#: Long enough for three nodes to find each other on a busy machine.
PATIENCE: Final = 300.0


class Node(Process):
    """One node: `dragoman up --cluster`."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.folder = cluster.folder / name
        self.folder.mkdir(exist_ok=True)
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
        self._at_node = cluster.network.command(name)
        self._clock = self.folder / "clock-shift"
        self.shift_clock(0.0)
        path = [str(_SHIFTED_CLOCK), *filter(None, [os.environ.get("PYTHONPATH")])]
        up = [DRAGOMAN, "up", "--config", str(self.config), "--data", str(self.data)]
        super().__init__(
            [*self._at_node, *up, *(["--insecure"] if cluster.network.can_cut else [])],
            cluster.folder / f"node-{name}.log",
            env={"PYTHONPATH": ":".join(path), "CLOCK_SHIFT": str(self._clock)},
        )

    @property
    def endpoints(self) -> dict[str, str]:
        """The endpoints of its listeners."""
        return {link: f"tcp://{place}" for link, place in self.cluster.places[self.name].items()}

    def shift_clock(self, seconds: float) -> None:
        """Let the wall clock of the broker jump."""
        with open(self._clock, "r+b" if self._clock.exists() else "wb") as file:
            file.write(struct.pack("d", seconds))

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

    def cli(self, *words: str, at_most: float = 120.0) -> tuple[int, Any]:
        """Run a `dragoman cluster` command on this node; return exit code and JSON."""
        where = ["--config", str(self.config), "--data", str(self.data), "--json"]
        command = [*self._at_node, DRAGOMAN, "cluster", *words, *where]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=at_most, check=False, cwd=ROOT
            )
        except subprocess.TimeoutExpired:
            return 1, {"leaders": []}
        # A node that has just been started does not answer yet.
        return done.returncode, json.loads(done.stdout) if done.stdout else {"leaders": []}

    def doctor(self) -> dict[str, str]:
        """Run `dragoman doctor` on this node; return what it says about the cluster."""
        where = ["--config", str(self.config), "--data", str(self.data), "--json"]
        done = subprocess.run(
            [*self._at_node, DRAGOMAN, "doctor", *where],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=ROOT,
        )
        found = [each for each in json.loads(done.stdout) if each["what"] == "cluster"]
        return {each["words"]: each["verdict"] for each in found}


class Cluster:
    """Three nodes and their addresses."""

    def __init__(
        self,
        fleet: Fleet,
        links: tuple[str, ...],
        settings: str = "",
        network: NodeNetwork | None = None,
    ) -> None:
        self.folder = fleet.folder
        self.network = network = network or NodeNetwork()
        self.settings = settings
        self.token_file = fleet.folder / "cluster.token"
        assert run_dragoman("cluster", "token", str(self.token_file)).returncode == 0
        self.places = {
            name: {link: self._place(name, number) for number, link in enumerate(links)}
            for name in HOSTS
        }
        self.routes = {name: self._place(name, len(links)) for name in HOSTS}
        self.nodes: dict[str, Node] = {}
        for name in HOSTS:
            self.nodes[name] = node = Node(self, name)
            fleet.processes.append(node)

    def _place(self, name: str, number: int) -> str:
        host = self.network.host(name)
        # In a namespace of its own a node has all ports.
        return f"{host}:{6000 + number if self.network.can_cut else free_port(host)}"

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

    def get(self, name: str, path: str, at_most: float = 30) -> str:
        """Make an HTTP request to one node."""
        with urlopen(f"{self.one_url('http', name)}{path}", timeout=at_most) as answer:
            return str(answer.read().decode())

    def leads(self, name: str) -> bool:
        """Tell whether a node says that it leads."""
        try:
            return bool(json.loads(self.get(name, "/readyz", 5))["role"] == "leader")
        except (OSError, ValueError):
            return False

    def until_led(self, *asked: str, other_than: str = "") -> str:
        """Wait until one of the running nodes leads; return its name."""
        names = [name for name in asked or HOSTS if self.nodes[name].is_running]

        def leader() -> str:
            leading = (name for name in names if name != other_than and self.leads(name))
            return next(leading, "")

        return until(leader, "a node leads", PATIENCE, every=0.2)

    def until_all_answer(self) -> None:
        """Wait until one node leads, all follow, and any of them may be lost."""

        def well() -> bool:
            leader = self.until_led()
            return self.nodes[leader].cli("status", "--wait", "60")[0] == 0

        until(well, "one node leads, all answer and all copies are complete", PATIENCE, every=0.2)

    def until_equal(self) -> dict[str, Any]:
        """Wait until the copies of all nodes are equal."""

        def equal() -> Any:
            code, found = self.nodes["a"].cli("verify")
            return found if code == 0 else None

        return dict(until(equal, "all copies are equal", PATIENCE, every=0.5))

    def stream_leader(self) -> str:
        """Return the node whose nats-server leads the stream; empty if it is not known."""
        found = (node.cli("status", "--within", "3")[1] for node in self.nodes.values())
        return next((each["stream"] for each in found if each.get("stream")), "")

    def standbys(self, leader: str) -> list[str]:
        return [name for name in HOSTS if name != leader]
