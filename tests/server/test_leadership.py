"""The role of a broker in its cluster: whole brokers on a stream in memory."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.core.events import JobSubmitted
from dragoman.ledger.layout import SEALED_FOLDER
from dragoman.ledger.manifest import read_manifest
from dragoman.ledger.memory_stream import MemoryStream, StreamConnection
from dragoman.model.body import EMPTY
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.record import Kind
from dragoman.model.terms import Terms
from dragoman.server.cluster_node import ClusterNode, Role
from dragoman.server.lease import LeaseHolder
from dragoman.server.server import Server
from dragoman.server.settings_sources import load
from dragoman.testing.harness import LINKS
from dragoman.testing.memory_bucket import BucketConnection, MemoryBucket

pytestmark = pytest.mark.process

TTL = 0.6


class Doors:
    """Notes when the pass-through of a node is open."""

    def __init__(self) -> None:
        self.is_open = False
        self.holder: Callable[[], LeaseHolder | None] = lambda: None

    async def open(self, holder: Callable[[], LeaseHolder | None]) -> None:
        self.is_open, self.holder = True, holder

    async def close(self) -> None:
        self.is_open = False


class Node:
    """One broker of a cluster, in a thread."""

    def __init__(
        self,
        name: str,
        folder: Path,
        stream: MemoryStream,
        bucket: MemoryBucket,
        *,
        seals: bool = False,
    ) -> None:
        self.stream, self.bucket = StreamConnection(stream), BucketConnection(bucket)
        self.doors = Doors()
        self.node = ClusterNode(name, self.stream, self.bucket, TTL, self.doors)
        listen = {link: "tcp://127.0.0.1:0" if link == "nfp" else "off" for link in LINKS}
        self.server = Server(
            load(data=folder / name, listen=listen, ledger={"seal": seals}), self.node
        )
        self.endpoints: dict[str, str] = {}
        self.error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self.error = error

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.server.run(self._on_ready)

    def _on_ready(self, endpoints: dict[str, str]) -> None:
        self.endpoints = endpoints

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in the broker's thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function)

    def until(self, role: Role) -> None:
        """Wait until the broker has a role."""
        until(lambda: self.server.role is role, f"{self.node.node} is not {role}: {self.error}")

    def submit(self, job: str) -> None:
        """Submit a job that waits for a worker."""
        terms = Terms(patience=600.0)
        event = JobSubmitted(JobId(job), PeerId("local/c"), ServiceName("s"), EMPTY, terms=terms)
        loop = self.server.loop
        assert loop is not None
        self.call(lambda: loop.submit(event))

    def stop(self) -> None:
        if self.thread.is_alive():
            self.call(self.server.stop)
        self.thread.join(20.0)
        assert not self.thread.is_alive()


def until(condition: Callable[[], object], otherwise: str) -> None:
    at_most = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < at_most, otherwise
        time.sleep(0.01)


class Site:
    """Nodes on one stream; the first one leads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stream, self.bucket = MemoryStream(), MemoryBucket(TTL, time.monotonic)
        self.nodes: list[Node] = []

    def add(self, name: str, *, seals: bool = False) -> Node:
        node = Node(name, self.folder, self.stream, self.bucket, seals=seals)
        self.nodes.append(node)
        return node


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    for node in made.nodes:
        node.stop()


def starts(node: Node) -> list[str]:
    """Return what the ledger says about every start."""
    loop = node.server.loop
    assert loop is not None
    return [r.detail for r in loop.ledger.read() if r.kind == Kind.STARTED]


def test_one_node_leads_and_the_other_follows_and_passes_connections_on(site: Site) -> None:
    a = site.add("a")
    a.until(Role.LEADER)
    b = site.add("b")
    b.until(Role.STANDBY)
    until(lambda: b.doors.holder() and b.doors.holder().endpoints, "b knows no leader")  # type: ignore[union-attr]
    holder = b.server.leader
    assert holder is not None
    assert (holder.node, holder.epoch, holder.endpoints) == ("a", 1, a.endpoints)
    assert (a.doors.is_open, b.doors.is_open) == (False, True)


def test_a_leader_that_is_stopped_hands_over_with_everything(site: Site) -> None:
    a = site.add("a")
    a.until(Role.LEADER)
    b = site.add("b")
    b.until(Role.STANDBY)
    a.submit("j1")
    a.stop()
    assert a.error is None
    b.until(Role.LEADER)
    assert not b.doors.is_open
    loop = b.server.loop
    assert loop is not None
    assert "j1" in loop.broker.state.store.jobs
    assert [text.split(", pid")[0] for text in starts(b)] == [
        "node a, epoch 1",
        "node b, epoch 2",
    ]


def test_a_leader_that_steps_down_follows_the_next_one(site: Site) -> None:
    a = site.add("a")
    a.until(Role.LEADER)
    b = site.add("b")
    b.until(Role.STANDBY)
    a.call(a.server.step_down)
    b.until(Role.LEADER)
    a.until(Role.STANDBY)
    b.call(b.server.step_down)
    a.until(Role.LEADER)
    assert len(starts(a)) == 3


def test_a_leader_without_its_servers_stops_and_follows_when_they_are_back(site: Site) -> None:
    a = site.add("a")
    a.until(Role.LEADER)
    b = site.add("b")
    b.until(Role.STANDBY)
    a.stream.is_cut = a.bucket.is_cut = True
    b.until(Role.LEADER)
    a.until(Role.STANDBY)
    a.stream.is_cut = a.bucket.is_cut = False
    until(lambda: a.server.leader is not None, "a knows no leader")
    assert a.server.leader is not None
    assert a.server.leader.node == "b"


def test_a_leader_without_a_majority_stops_without_an_error(site: Site) -> None:
    a = site.add("a")
    a.until(Role.LEADER)
    site.stream.servers = 1
    a.submit("j1")
    a.stop()
    assert a.error is None


def test_a_leader_that_is_fenced_follows(site: Site) -> None:
    a = site.add("a")
    a.until(Role.LEADER)
    b = site.add("b")
    b.until(Role.STANDBY)
    # The lease is gone, and a does not know: it believes that it still has it.
    holder = site.bucket.get("leader")
    assert holder is not None
    a.server.leadership._lease._bucket = _Agreeing()  # type: ignore[union-attr]
    site.bucket.delete("leader", holder[1])
    b.until(Role.LEADER)
    a.submit("j1")
    until(lambda: a.server.role is not Role.LEADER, "a still leads")
    loop = b.server.loop
    assert loop is not None
    assert not any(r.kind == Kind.SUBMITTED for r in loop.ledger.read())


class _Agreeing:
    """A bucket that renews whatever it is asked to, and has no holder but a."""

    def get(self, key: str) -> tuple[bytes, int] | None:
        raise ConnectionError("cut")

    create = update = delete = lambda self, *_: 1


def test_every_node_seals_each_record_once_whoever_leads(site: Site) -> None:
    a = site.add("a", seals=True)
    a.until(Role.LEADER)
    b = site.add("b", seals=True)
    b.until(Role.STANDBY)
    a.submit("j1")
    a.stop()
    b.until(Role.LEADER)
    a = site.add("a", seals=True)
    a.until(Role.STANDBY)
    b.submit("j2")
    loop = b.server.loop
    assert loop is not None
    until(lambda: "j2" in loop.broker.state.store.jobs, "j2 is not there")
    b.stop()
    a.until(Role.LEADER)
    a.stop()
    assert (a.error, b.error) == (None, None)
    last = {name: check_segments(site.folder / name) for name in "ab"}
    assert last["a"] > last["b"] > 4


def check_segments(data: Path) -> int:
    """Check that the segments of a node have no gap and no overlap; return the last record."""
    segments = read_manifest(data / SEALED_FOLDER).segments
    firsts, lasts = [each.first for each in segments], [each.last for each in segments]
    assert firsts == [1, *(last + 1 for last in lasts[:-1])]
    return lasts[-1]


def test_roles_without_a_cluster(tmp_path: Path) -> None:
    server = Server(load(data=tmp_path))
    assert (server.role, server.leader, server.lag) == (Role.STANDALONE, None, 0)
