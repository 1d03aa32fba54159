"""A cluster of three nodes as processes, under load: nothing acknowledged is lost.

`make cluster-chaos ROUNDS=n` runs n faults; `make test` runs a kill of the leader and a rolling
restart. `CLUSTER_CHAOS_SEED` sets which faults.
"""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Final

import pytest
from tests.interop.cluster_load import Load, check_ledgers
from tests.interop.cluster_nodes import HOSTS, Cluster
from tests.interop.harness import Fleet

from dragoman.server.server import LEDGER_FILE

pytestmark = pytest.mark.interop

ROUNDS: Final = int(os.environ.get("CLUSTER_CHAOS_ROUNDS", "0"))
SEED: Final = int(os.environ.get("CLUSTER_CHAOS_SEED", "20261118"))
LINKS: Final = ("nfp", "http", "zss", "zss_backend", "memo")
#: Strict dialects, in which an acknowledgement is a promise.
DIALECTS: Final = ("nfp", "http")
#: Workers come back in every fault; none is declared lost. Jobs wait for them.
SETTINGS: Final = """
[nfp]
beat_every = 0.5
missed_allowed = 120
[limits]
recovery_grace = 60
[ledger]
seal = false
[services.load]
patience = 60
"""


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
    time.sleep(12.0)
    node.thaw_all(frozen)


def kill_nats(cluster: Cluster, leader: str) -> None:
    """Kill only the leader's nats-server; the broker starts it again."""
    for pid in cluster.nodes[leader].children():
        os.kill(pid, signal.SIGKILL)


Fault = Callable[[Cluster, str], None]
FAULTS: Final[dict[str, Fault]] = {
    "kill the leader": kill_leader,
    "kill a standby": kill_standby,
    "stop the leader": stop_leader,
    "step down": step_down,
    "freeze the leading broker 6 s": freeze_broker,
    "freeze the leading node 12 s": freeze_node,
    "kill the leader's nats-server": kill_nats,
}


def start_missing(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        if not node.is_running:
            node.start()


def check(cluster: Cluster, load: Load) -> None:
    """Compare the clients' books, the workers' log and the copies of all nodes."""
    load.finish()
    found = cluster.until_equal()
    assert found["equal"]
    for node in cluster.nodes.values():
        node.stop(60)
    check_ledgers([node.data / LEDGER_FILE for node in cluster.nodes.values()], load)
    assert not load.lost()
    assert not load.twice()


def check_roles(cluster: Cluster, leader: str) -> None:
    """Each node says its role at /readyz; the leader's metrics have it, too."""
    for name in HOSTS:
        role = "leader" if name == leader else "standby"
        found = json.loads(cluster.get(name, "/readyz"))
        assert found == {"status": "ready", "node": name, "role": role, "leader": leader}
    assert 'dragoman_cluster_role{role="leader"} 1.0' in cluster.get(leader, "/metrics")


@pytest.mark.timeout(600)
def test_a_killed_leader_and_a_rolling_restart_cost_no_work(fleet: Fleet) -> None:
    cluster = Cluster(fleet, LINKS, SETTINGS)
    first = cluster.until_led()
    check_roles(cluster, first)
    load = Load(fleet, cluster, DIALECTS)
    load.until_acknowledged(time.monotonic(), many=50)
    cluster.nodes[first].kill()
    load.until_acknowledged(time.monotonic(), many=50)
    cluster.nodes[first].start()
    cluster.until_all_answer()
    for name in HOSTS:
        assert cluster.nodes[name].stop(60) == 0
        load.until_acknowledged(time.monotonic(), many=20)
        cluster.nodes[name].start()
        cluster.until_all_answer()
    check(cluster, load)


@pytest.mark.skipif(not ROUNDS, reason="only in `make cluster-chaos`")
@pytest.mark.timeout(120 * ROUNDS + 600)
def test_no_fault_loses_acknowledged_work(fleet: Fleet) -> None:
    cluster = Cluster(fleet, LINKS, SETTINGS)
    choose, table = random.Random(SEED), dict[str, list[float]]()
    cluster.until_led()
    load = Load(fleet, cluster, DIALECTS)
    load.until_acknowledged(time.monotonic(), many=50)
    names = list(FAULTS)
    for number in range(ROUNDS):
        name = names[number % len(names)] if number < len(names) else choose.choice(names)
        leader = cluster.until_led()
        began = time.monotonic()
        FAULTS[name](cluster, leader)
        table.setdefault(name, []).append(load.longest_gap(began))
        start_missing(cluster)
        cluster.until_all_answer()
    check(cluster, load)
    show(table, load)


def show(table: dict[str, list[float]], load: Load) -> None:
    """Print what each fault cost."""
    print(f"\n{'fault':34}{'rounds':>7}{'median s':>10}{'worst s':>9}")
    for name, gaps in table.items():
        middle = sorted(gaps)[len(gaps) // 2]
        print(f"{name:34}{len(gaps):7}{middle:10.2f}{max(gaps):9.2f}")
    known = len(load.acknowledgements())
    print(f"acknowledged {known}, lost {len(load.lost())}, run twice {len(load.twice())}")
