"""A simulated node leads, hands over, follows and comes back."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.ledger.memory_stream import MemoryStream, StreamConnection
from dragoman.testing.cluster_nodes import TTL, ClusterSimNode
from dragoman.testing.cluster_oracle import ClusterOracle
from dragoman.testing.memory_bucket import BucketConnection, MemoryBucket
from dragoman.testing.world import World

pytestmark = pytest.mark.sim


class Site:
    """Two nodes without faults."""

    def __init__(self, folder: Path) -> None:
        self.world = World(1)
        self.stream = MemoryStream()
        self.running = asyncio.new_event_loop()
        bucket, oracle = MemoryBucket(TTL, lambda: self.world.now), ClusterOracle(self.stream)
        self.a, self.b = (
            ClusterSimNode(
                self.world,
                name,
                folder,
                StreamConnection(self.stream),
                BucketConnection(bucket),
                oracle,
                self.running,
                self.find,
            )
            for name in "ab"
        )

    def find(self, link: str, address: Any) -> tuple[str, Callable[[Any], None]] | None:
        return None

    def run(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.next_at() <= until:
            self.world.step()
        self.world.now = until

    def leader(self) -> ClusterSimNode:
        [found] = [node for node in (self.a, self.b) if node.is_leader]
        return found

    def other(self, node: ClusterSimNode) -> ClusterSimNode:
        return self.b if node is self.a else self.a


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    made.run(1.0)
    yield made
    made.a.close()
    made.b.close()
    made.running.close()


def test_one_of_two_leads(site: Site) -> None:
    assert site.leader().ledger.epoch == 1


def test_a_node_that_hands_over_is_followed_within_a_second(site: Site) -> None:
    old = site.leader()
    old.hand_over()
    site.run(1.0)
    assert site.leader().ledger.epoch == 2


def test_a_killed_leader_is_followed_when_its_lease_has_ended(site: Site) -> None:
    old = site.leader()
    old.crash()
    site.run(TTL + 0.5)
    assert site.leader() is site.other(old)
    old.start()
    site.run(1.0)
    assert site.leader() is site.other(old)
    assert old.ledger.last_seq == site.leader().ledger.last_seq


def test_a_paused_leader_follows_when_it_wakes_up(site: Site) -> None:
    old = site.leader()
    old.stand_still(2 * TTL)
    site.run(TTL + 0.5)
    assert site.other(old).is_leader
    site.run(2 * TTL)
    assert site.leader() is site.other(old)


def test_maintenance_goes_through_the_stream(site: Site) -> None:
    site.leader().maintain()
    site.run(1.0)
    assert site.other(site.leader()).ledger.checkpoints() == {"reader": 1}
