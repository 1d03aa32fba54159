"""A cluster of three nodes as processes, under load: nothing acknowledged is lost.

`make cluster-chaos ROUNDS=n` runs n faults, a new cluster for each twenty of them; `make test` runs
a kill of the leader and a restart. `CLUSTER_CHAOS_SEED` sets which faults.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from statistics import median
from typing import Final

import pytest
from tests.interop.cluster_faults import CUTS, FAULTS, FULL, Fault, small_disk
from tests.interop.cluster_load import Load, check_ledgers
from tests.interop.cluster_network import node_network
from tests.interop.cluster_nodes import HOSTS, Cluster
from tests.interop.harness import Fleet, until

from dragoman.server.server import LEDGER_FILE

pytestmark = pytest.mark.interop

ROUNDS: Final = int(os.environ.get("CLUSTER_CHAOS_ROUNDS", "0"))
#: Rounds of one cluster: after more, the books of its clients would take much of the machine.
CAMPAIGN: Final = 20
#: No round begins after so many minutes.
MINUTES: Final = float(os.environ.get("CLUSTER_CHAOS_MINUTES", "600"))
ENDS_AT: Final = time.monotonic() + 60 * MINUTES
SEED: Final = int(os.environ.get("CLUSTER_CHAOS_SEED", "20261118"))
#: Faults by name, separated by commas; all of them if empty.
ONLY: Final = os.environ.get("CLUSTER_CHAOS_ONLY", "")
LINKS: Final = ("nfp", "http", "dcp", "zss", "zss_backend", "memo", "nats", "mdp")
#: Dialects that acknowledge a job when it is durable.
DIALECTS: Final = ("nfp", "http")
ALL_DIALECTS: Final = (*DIALECTS, "dcp", "zss", "memo", "ncl", "mdp")
#: Workers come back in every fault; none is declared lost, also if it is cut off for longer than
#: its usual lease. Jobs wait for them.
SETTINGS: Final = """
[nfp]
beat_every = 0.5
missed_allowed = 120
[zss]
missed_allowed = 60
[dcp]
missed_allowed = 60
[mdp]
missed_allowed = 24
[limits]
recovery_grace = 60
[ledger]
seal = false
[services.load]
durability = "strict"
patience = 60
"""


class ChaosTable:
    """What the faults of all rounds cost, and what became of the jobs."""

    def __init__(self) -> None:
        self._gaps: dict[str, list[float]] = {}
        self._jobs: dict[str, list[int]] = {}

    def note(self, fault: str, gap: float) -> None:
        """Add a fault, with the seconds without an acknowledgement."""
        self._gaps.setdefault(fault, []).append(gap)

    def add(self, load: Load) -> None:
        """Add the jobs of a cluster that has ended."""
        for dialect, *counts in load.rows():
            known = self._jobs.get(dialect, [0] * len(counts))
            self._jobs[dialect] = [one + two for one, two in zip(known, counts, strict=True)]

    def show(self) -> None:
        """Print both tables."""
        print(f"\n{'fault':36}{'rounds':>7}{'median s':>10}{'worst s':>9}")
        for name, gaps in sorted(self._gaps.items()):
            print(f"{name:36}{len(gaps):7}{median(gaps):10.2f}{max(gaps):9.2f}")
        words = ("dialect", "acknowledged", "ended", "lost", "no answer", "twice")
        print("\n{:10}{:>14}{:>8}{:>6}{:>11}{:>7}".format(*words))
        for dialect, counts in self._jobs.items():
            print("{:10}{:14}{:8}{:6}{:11}{:7}".format(dialect, *counts), flush=True)


@pytest.fixture(scope="module")
def table() -> Iterator[ChaosTable]:
    """The table of all rounds, printed at the end."""
    table = ChaosTable()
    yield table
    table.show()


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
    nodes = json.loads(cluster.get(leader, "/v1/cluster"))["nodes"]
    roles = {each["node"]: each["role"] for each in nodes}
    assert roles == {name: "leader" if name == leader else "standby" for name in HOSTS}


def check_doctor(cluster: Cluster, missing: str) -> None:
    """The doctor of a running node names the one that is down; that of the one does not ask."""
    running = next(name for name in HOSTS if name != missing)

    def known() -> dict[str, str]:
        # The other servers need a moment to see that one is gone.
        found = cluster.nodes[running].doctor()
        is_seen = any(f"not complete or not there: {missing}" in text for text in found)
        return found if is_seen else {}

    said = until(known, f"the doctor sees that {missing} is gone", every=0.5)
    [text] = [text for text in said if "nodes answer" in text]
    assert (said[text], f"silent: {missing}." in text) == ("warning", True), said
    assert any("leads, epoch" in text for text in said), said
    assert any("each write is synced to disk" in text for text in said), said
    assert "bad" not in said.values(), said
    [down] = [text for text in cluster.nodes[missing].doctor() if "does not run" in text]
    assert f"node {missing}" in down


@pytest.mark.timeout(600)
def test_a_killed_leader_and_a_restart_cost_no_work(fleet: Fleet) -> None:
    cluster = Cluster(fleet, LINKS, SETTINGS)
    first = cluster.until_led()
    check_roles(cluster, first)
    load = Load(fleet, cluster, DIALECTS)
    load.until_acknowledged(time.monotonic(), many=50)
    cluster.nodes[first].kill()
    load.until_acknowledged(time.monotonic(), many=50)
    check_doctor(cluster, missing=first)
    cluster.nodes[first].start()
    cluster.until_all_answer()
    # `make cluster-chaos` restarts all of them, one by one.
    second = cluster.until_led()
    assert cluster.nodes[second].stop(60) == 0
    load.until_acknowledged(time.monotonic(), many=20)
    cluster.nodes[second].start()
    cluster.until_all_answer()
    check(cluster, load)


@pytest.mark.skipif(not ROUNDS, reason="only in `make cluster-chaos`")
@pytest.mark.timeout(120 * CAMPAIGN + 600)
@pytest.mark.parametrize("first", range(0, max(1, ROUNDS), CAMPAIGN))
def test_no_fault_loses_acknowledged_work(fleet: Fleet, table: ChaosTable, first: int) -> None:
    with node_network() as network, small_disk(fleet.folder) as is_small:
        faults = {**FAULTS, **(CUTS if network.can_cut else {}), **(FULL if is_small else {})}
        wanted = {name: fault for name, fault in faults.items() if is_wanted(name)}
        cluster = Cluster(fleet, LINKS, SETTINGS, network)
        try:
            run_rounds(fleet, cluster, wanted, table, range(first, min(first + CAMPAIGN, ROUNDS)))
        finally:
            fleet.end()


def is_wanted(name: str) -> bool:
    return not ONLY or any(part in name for part in ONLY.split(","))


def run_rounds(
    fleet: Fleet, cluster: Cluster, faults: dict[str, Fault], table: ChaosTable, numbers: range
) -> None:
    """Every fault once in some order, then faults by chance."""
    choose = random.Random(SEED + numbers.start)
    names = choose.sample(sorted(faults), len(faults))
    cluster.until_led()
    load = Load(fleet, cluster, ALL_DIALECTS)
    load.until_acknowledged(time.monotonic(), many=50)
    for number in numbers:
        if time.monotonic() > ENDS_AT:
            break
        name = names.pop() if names else choose.choice(sorted(faults))
        leader = cluster.until_led()
        began = time.monotonic()
        faults[name](cluster, leader)
        gap = load.longest_gap(began)
        table.note(name, gap)
        print(f"round {number + 1}: {name}: {gap:.2f} s", flush=True)
        start_missing(cluster)
        cluster.until_all_answer()
        load.require_alive()
    check(cluster, load)
    table.add(load)
    print("all copies are equal; every book agrees", flush=True)
