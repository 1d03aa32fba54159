"""Peers that are not ours, at the address of one node of a cluster that does not lead.

NorFab's client and worker, ZSS's on Node, memo01's on pynng, DCP's on plain pyzmq. None of them
knows of a cluster: each has one address, that of a standby. The leader is killed while each worker
runs a job.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest
from tests.interop.cluster_nodes import Cluster, Node
from tests.interop.dcp_peer import Peer
from tests.interop.harness import Fleet, until
from tests.interop.matrix_table import UPSTREAM
from tests.interop.upstream import (
    START,
    Caller,
    NodeCaller,
    NorfabCaller,
    PynngCaller,
    Told,
)

from dragoman import Client, Job

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

LINKS: Final = ("nfp", "http", "dcp", "zss", "zss_backend", "memo")
DCP: Final = "dcp-raw"
SERVICES: Final = (*UPSTREAM, DCP)
#: NorFab's peers beat every 2.5 s and reconnect after as long.
SETTINGS: Final = """
[nfp]
missed_allowed = 12
[limits]
recovery_grace = 60
[ledger]
seal = false
"""
#: Seconds of a job that runs while the leader is killed.
LONG: Final = 12.0


def test_peers_that_are_not_ours_work_on_after_the_leader_is_killed(
    fleet: Fleet, tmp_path: Path
) -> None:
    cluster = Cluster(fleet, LINKS, SETTINGS)
    leader = cluster.until_led()
    node = cluster.nodes[cluster.standbys(leader)[0]]
    start_workers(fleet, node)
    with (
        Client(f"http://{cluster.places[node.name]['http']}") as client,
        callers(fleet, node) as all_,
    ):
        until(lambda: have_joined(client), "all workers have joined", 120)
        assert call_everything(all_, node) == {}
        running = {name: start_job(client, name, tmp_path / name) for name in SERVICES}
        until(lambda: all((tmp_path / name).exists() for name in SERVICES), "all jobs have started")
        cluster.nodes[leader].kill()
        cluster.until_led(other_than=leader)
        for name, job in running.items():
            job.result(timeout=120)
            runs = (tmp_path / name).read_text().splitlines()
            assert len(runs) == 1, f"the job of {name} ran {len(runs)} times"
        until(lambda: have_joined(client), "all workers have joined the next leader", 120)
        assert call_everything(all_, node) == {}


@contextmanager
def callers(fleet: Fleet, node: Node) -> Iterator[dict[str, Caller]]:
    """Start the clients, each with the address of one node."""
    with closing(NodeCaller(node)) as on_node, closing(PynngCaller(node)) as on_pynng:
        norfab = NorfabCaller(fleet, node)
        yield {"norfab": norfab, "zss-npm": on_node, "pynng": on_pynng}


def start_workers(fleet: Fleet, node: Node) -> None:
    """Start the workers; their services have their names."""
    for kind in UPSTREAM:
        START[kind](fleet, node, kind)
    fleet.python("-m", "tests.interop.dcp_peer", node.endpoints["dcp"], DCP)


def have_joined(client: Client) -> bool:
    rows = client.call("mmi.service.broker", "list_services", timeout=10)
    return {row["name"].lower() for row in rows if row["workers"]} >= {*SERVICES}


def call_everything(found: dict[str, Caller], node: Node) -> dict[tuple[str, str], Told]:
    """Let each client call each worker; return the answers that are wrong."""
    told = {
        (name, service): caller.call(service, "echo", "salam", timeout=60.0)
        for name, caller in found.items()
        for service in UPSTREAM
    }
    told[DCP, DCP] = call_dcp(node)
    return {pair: answer for pair, answer in told.items() if answer.value != "salam"}


def call_dcp(node: Node) -> Told:
    """Let a new client of DCP call the worker; its text has no words for a lost connection."""
    with Peer(node.endpoints["dcp"]) as peer:
        peer.ask(DCP.encode(), b"", b"salam")
        _, data = peer.answer()
        return Told(data[0].decode())


def start_job(client: Client, service: str, path: Path) -> Job:
    """Submit a job that adds a line to a file and takes long."""
    if service == DCP:
        return client.options().submit_raw(service, f"noted {LONG} {path}".encode())
    return client.submit(service, "noted", str(path), LONG)
