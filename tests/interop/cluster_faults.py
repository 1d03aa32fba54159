"""Faults of the nodes of a cluster. Each returns when the fault is over, or may be mended."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.interop.cluster_nodes import HOSTS, Cluster

#: Seconds of a cut between nodes: longer than a lease and an election.
_CUT: Final = 12.0
#: The node whose disk can be filled.
SMALL: Final = "c"
_SMALL_SIZE: Final = "1g"
_HOUR: Final = 3600.0

Fault = Callable[[Cluster, str], None]


def kill_leader(cluster: Cluster, leader: str) -> None:
    """Kill the broker; its nats-server ends with it."""
    cluster.nodes[leader].kill()


def kill_standby(cluster: Cluster, leader: str) -> None:
    cluster.nodes[cluster.standbys(leader)[0]].kill()


def stop_leader(cluster: Cluster, leader: str) -> None:
    assert cluster.nodes[leader].stop(60) == 0


def step_down(cluster: Cluster, leader: str) -> None:
    code, found = cluster.nodes[leader].cli("step-down")
    assert code == 0, found


def freeze_broker(cluster: Cluster, leader: str) -> None:
    """Stop the leading broker for longer than its lease; its nats-server goes on."""
    node = cluster.nodes[leader]
    node.freeze()
    time.sleep(6.0)
    node.thaw()


def freeze_node(cluster: Cluster, leader: str) -> None:
    """Stop the leading broker and its nats-server: to the others the machine is gone."""
    node = cluster.nodes[leader]
    frozen = node.freeze_all()
    time.sleep(30.0)
    node.thaw_all(frozen)


def kill_nats(cluster: Cluster, leader: str) -> None:
    """Kill only the leader's nats-server; the broker starts it again."""
    for pid in cluster.nodes[leader].children():
        os.kill(pid, signal.SIGKILL)


def restart_all(cluster: Cluster, leader: str) -> None:
    """Restart one node after the other, as an upgrade does."""
    for name in HOSTS:
        assert cluster.nodes[name].stop(60) == 0
        cluster.nodes[name].start()
        cluster.until_all_answer()


def shift_clocks(cluster: Cluster, leader: str) -> None:
    """Let the clocks of the leader and of one standby jump, and hand over between them."""
    jumps = random.Random(leader).sample([-_HOUR, _HOUR, 90.0], 2)
    for name, jump in zip((leader, cluster.standbys(leader)[0]), jumps, strict=True):
        cluster.nodes[name].shift_clock(jump)
    cluster.nodes[leader].kill()
    time.sleep(_CUT)
    for node in cluster.nodes.values():
        node.shift_clock(0.0)


# --- cuts, which need namespaces ------------------------------------------------------------------


def cut_leader(cluster: Cluster, leader: str) -> None:
    """Cut the leader off from the other nodes; clients reach all of them."""
    _cut(cluster, leader)


def cut_stream_leader(cluster: Cluster, leader: str) -> None:
    """Cut off the node whose nats-server leads the stream."""
    _cut(cluster, cluster.stream_leader() or leader)


def cut_standby(cluster: Cluster, leader: str) -> None:
    """Cut a standby off from the other nodes; its clients still reach it."""
    _cut(cluster, cluster.standbys(leader)[1])


def cut_leader_from_all(cluster: Cluster, leader: str) -> None:
    """Cut the leader off from the other nodes and from its peers."""
    _cut(cluster, leader, outside=True)


def _cut(cluster: Cluster, name: str, *, outside: bool = False) -> None:
    cluster.network.cut([name], cluster.standbys(name), outside=outside)
    time.sleep(_CUT)
    cluster.network.heal()


# --- a full disk, which needs a small one ---------------------------------------------------------


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Give a node a small disk; False where root does not allow it."""
    data = folder / SMALL / "data"
    words = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL_SIZE},mode=700", "tmpfs", str(data)]
    data.mkdir(parents=True)
    if os.geteuid() or subprocess.run(words, capture_output=True, check=False).returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", str(data)], check=True)


def fill_disk(cluster: Cluster, leader: str) -> None:
    """Fill the disk of one node, whatever its role, and free it again."""
    ballast = cluster.nodes[SMALL].data / "ballast"
    piece = bytes(2**20)
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(piece)
        except OSError:
            piece = bytes(512)
        try:
            while True:
                file.write(piece)
        except OSError:
            pass
    time.sleep(_CUT)
    ballast.unlink()


FAULTS: Final[dict[str, Fault]] = {
    "kill the leader": kill_leader,
    "kill a standby": kill_standby,
    "stop the leader": stop_leader,
    "step down": step_down,
    "freeze the leading broker 6 s": freeze_broker,
    "freeze the leading node 30 s": freeze_node,
    "kill the leader's nats-server": kill_nats,
    "restart all, one by one": restart_all,
    "clocks jump, leader killed": shift_clocks,
}
CUTS: Final[dict[str, Fault]] = {
    "cut the leader off 12 s": cut_leader,
    "cut the stream's leader off 12 s": cut_stream_leader,
    "cut a standby off 12 s": cut_standby,
    "cut the leader off, peers too 12 s": cut_leader_from_all,
}
FULL: Final[dict[str, Fault]] = {"full disk of one node 12 s": fill_disk}
