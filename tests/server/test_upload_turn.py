"""Whose turn it is to copy the export of a cluster: one at a time, a standby if there is one."""

import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path

import pytest

from dragoman.cli.pipeline_upload import upload_until_stopped
from dragoman.ledger.manifest import Manifest, write_manifest
from dragoman.ledger.segments import to_batch, write_segment
from dragoman.model.record import Record
from dragoman.pipeline.export import Export
from dragoman.pipeline.upload import upload
from dragoman.server.cluster_member import LEASE_TTL, bucket_name, remember_section
from dragoman.server.cluster_settings import ClusterSection
from dragoman.server.lease import TTL, Lease
from dragoman.server.member_channel import Content, MemberChannel
from dragoman.server.upload_turn import LEAVES, TurnLost, UploadTurn, find_turn
from dragoman.testing.memory_bucket import BucketConnection, MemoryBucket
from dragoman.transports.jetstream_bucket import JetStreamBucket
from dragoman.transports.jetstream_connection import JetStreamConnection
from dragoman.transports.nats_cluster import LEDGER_USER, NatsCluster, ledger_password
from dragoman.transports.nats_server import NatsServer


class Place:
    """A bucket, and uploaders of some nodes, on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.leader = "a"
        self.bucket = MemoryBucket(TTL, lambda: self.now)
        self.turns: dict[str, UploadTurn] = {}
        self.connections: dict[str, BucketConnection] = {}

    def turn(self, node: str) -> UploadTurn:
        self.connections[node] = connection = BucketConnection(self.bucket)
        lease = Lease(connection, node, TTL, lambda: self.now, key="upload")
        made = UploadTurn(lease, lambda: self.leader == node, lambda: self.now)
        self.turns[node] = made
        return made


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    for turn in made.turns.values():
        turn.close()


def test_one_standby_copies_and_another_goes_on_when_it_fails(place: Place) -> None:
    b, c = place.turn("b"), place.turn("c")
    assert b.take()
    assert b.take()
    assert not c.take()
    assert c.holder == "b"
    b.require()
    b.close()
    assert c.take()
    with pytest.raises(TurnLost):
        b.require()


def test_the_leader_leaves_the_turn_to_the_standbys(place: Place) -> None:
    a, b = place.turn("a"), place.turn("b")
    assert not a.take()
    place.now += LEAVES / 2
    assert b.take()
    assert not a.take()
    place.now += LEAVES
    b.close()
    # From here on nobody copies.
    assert not a.take()
    place.now += LEAVES
    assert a.take()
    a.require()
    a.copied()
    assert b.take()


def test_an_uploader_whose_node_begins_to_lead_gives_its_turn_back(place: Place) -> None:
    b, c = place.turn("b"), place.turn("c")
    assert b.take()
    place.leader = "b"
    assert not b.take()
    assert c.take()


def test_a_leader_copies_at_once_if_it_is_told_to_copy_once(place: Place) -> None:
    a, b = place.turn("a"), place.turn("b")
    assert a.take(at_once=True)
    assert not b.take(at_once=True)


def test_a_process_that_stood_still_does_not_publish(place: Place) -> None:
    b = place.turn("b")
    assert b.take()
    place.connections["b"].is_cut = True
    place.now += TTL
    with pytest.raises(TurnLost):
        b.require()


def export(folder: Path, count: int, *cuts: int) -> None:
    """Seal records into segments that end at the given positions."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [astuple(Record(seq, float(seq), "submitted", f"j{seq}")) for seq in range(1, count + 1)]
    pairs = itertools.pairwise([0, *cuts, count])
    made = [write_segment(folder, [to_batch(rows[a:b])], lambda _: None) for a, b in pairs]
    write_manifest(folder, Manifest(segments=made), lambda _: None)


def shortened(folder: Path, upto: int) -> str:
    """Let an export end earlier, as that of a node that is behind."""
    path = folder / "manifest.json"
    kept = [each for each in json.loads(path.read_text())["segments"] if each["last"] <= upto]
    path.write_text(json.dumps({"segments": kept}))
    return str(folder)


def segments(target: Path) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in Export(str(target)).segments()]


def test_a_take_over_repeats_no_record_and_loses_none(place: Place, tmp_path: Path) -> None:
    """Three copies, cut at different records; each uploader is stopped in the middle once."""
    cuts = {"a": (4, 8), "b": (3, 7, 10), "c": (5,)}
    for node, at in cuts.items():
        export(tmp_path / node, 12, *at)
    target = tmp_path / "copy"

    def stopped() -> None:
        raise TurnLost("killed before it published")

    assert upload(str(tmp_path / "c"), str(target), is_one_of_several=True).upto == 12
    (target / "manifest.json").unlink()
    for node, records in (("a", 4), ("b", 7), ("c", 12)):
        source = shortened(tmp_path / node, records)
        with pytest.raises(TurnLost):
            upload(source, str(target), stopped, is_one_of_several=True)
        assert upload(source, str(target), is_one_of_several=True).upto == records
    assert segments(target) == [(1, 4), (5, 7), (8, 12)]
    for node in cuts:
        # All have it now; none has anything to add.
        assert upload(str(tmp_path / node), str(target), is_one_of_several=True).segments == 0
    copy = Export(str(target))
    for span in copy.after(0):
        copy.read(span.segment)


def until(is_met: Callable[[], bool], seconds: float = 50.0) -> None:
    """Poll: the uploaders are threads that report to nobody."""
    waiting = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if is_met():
            return
        waiting.wait(0.05)
    pytest.fail("it did not happen in time")


class Uploader(threading.Thread):
    """`dragoman pipeline upload --every 1` on one node."""

    def __init__(self, data: Path, target: Path) -> None:
        super().__init__(daemon=True)
        self.source, self.target = str(data / "sealed"), str(target)
        self.turn = find_turn(self.source, self.target)
        self.is_stopped = threading.Event()
        self.start()

    def run(self) -> None:
        def wait(seconds: float) -> None:
            if self.is_stopped.wait(min(seconds, 0.1)):
                raise KeyboardInterrupt

        upload_until_stopped(self.source, self.target, 1, True, wait, self.turn)

    def end(self) -> None:
        self.is_stopped.set()
        self.join(30)
        assert self.turn is not None
        self.turn.close()


@pytest.mark.interop
def test_uploaders_of_three_nodes_take_turns_over_a_real_server(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    with ExitStack() as stack:
        for node, at in (("a", (4,)), ("b", (6,)), ("c", (2, 9))):
            export(tmp_path / node / "sealed", 12, *at)
        stack.enter_context(Served(tmp_path))
        uploaders = {node: Uploader(tmp_path / node, target) for node in "abc"}
        for each in uploaders.values():
            stack.callback(each.end)
        until(lambda: (target / "manifest.json").exists())
        assert len({each.turn.holder for each in uploaders.values() if each.turn}) == 1
        holder = next(iter(uploaders.values())).turn
        assert holder is not None
        first = holder.holder
        assert first in ("b", "c"), "the leader leaves it to a standby"
        for node in "abc":
            if node != first:
                export(tmp_path / node / "sealed", 15, 5)
        uploaders.pop(first).end()
        until(lambda: segments(target)[-1][1] == 15)
    spans = segments(target)
    assert spans[0][0] == 1
    assert all(later[0] == earlier[1] + 1 for earlier, later in itertools.pairwise(spans))
    copy = Export(str(target))
    for span in copy.after(0):
        copy.read(span.segment)


class Served:
    """A NATS server with the bucket of a cluster, and three nodes of which `a` leads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_up, self._loop = threading.Event(), asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(
            target=lambda: self._loop.run_until_complete(self._serve()), daemon=True
        )

    async def _serve(self) -> None:
        token = "0123456789abcdef"
        member = NatsCluster("c", "n", "127.0.0.1:0", (), token)
        server = NatsServer(self._folder / "nats", cluster=member)
        await server.start()
        place = server.url.partition("://")[2]
        url = f"nats://{LEDGER_USER}:{ledger_password(token)}@{place}"
        await asyncio.to_thread(self._make_bucket, server.url, ledger_password(token))
        members = []
        for node in "abc":
            (self._folder / node / "cluster").mkdir(parents=True)
            section = ClusterSection(name="c", node=node, nats=url)
            remember_section(section, self._folder / node)
            members.append(MemberChannel(url, "c", node, {"status": role_of(node)}))
            await members[-1].open()
            await members[-1].ask(node, "status", 20)
        self._is_up.set()
        await self._stop.wait()
        for each in members:
            await each.close()
        await server.stop()

    def _make_bucket(self, url: str, password: str) -> None:
        connection = JetStreamConnection([url], user=LEDGER_USER, password=password)
        JetStreamBucket.open(connection, bucket_name("c"), 1, LEASE_TTL)
        connection.close()

    def __enter__(self) -> None:
        self._thread.start()
        assert self._is_up.wait(50)

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        self._loop.close()


def role_of(node: str) -> Callable[[Content], Content]:
    return lambda content: {"role": "leader" if node == "a" else "standby"}
