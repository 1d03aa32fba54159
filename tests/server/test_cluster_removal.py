"""A node that is gone for ever is removed, and another one gets its copy of the stream."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.canary_watch import Canary

from dragoman.server.cluster_member import CLUSTER_FOLDER, own_url, split_secret
from dragoman.server.cluster_removal import remove_node
from dragoman.server.cluster_settings import ClusterSection
from dragoman.testing.fabric import free_port
from dragoman.transports.jetstream import JetStream
from dragoman.transports.jetstream_connection import JetStreamConnection
from dragoman.transports.nats_cluster import NatsCluster
from dragoman.transports.nats_server import NatsServer


@pytest.mark.interop
def test_a_new_node_replaces_one_that_was_removed(tmp_path: Path, canary: Canary) -> None:
    token = canary("cluster token")
    file = tmp_path / "cluster.token"
    file.touch(mode=0o600)
    file.write_text(token)
    places = {name: f"127.0.0.1:{free_port()}" for name in "abcd"}

    def server(name: str, *others: str) -> NatsServer:
        join = tuple(places[other] for other in others)
        member = NatsCluster("c", name, places[name], join, token)
        return NatsServer(tmp_path / name / CLUSTER_FOLDER, cluster=member)

    async def until_current(stream: JetStream, *names: str) -> None:
        async with asyncio.timeout(50):
            while True:
                try:
                    if (await asyncio.to_thread(stream.servers)).current == names:
                        return
                except OSError:
                    pass  # an election is under way
                await asyncio.sleep(0.1)

    async def story() -> None:
        section = ClusterSection(name="c", node="a", join=("b:1", "c:1"), token=file)
        async with AsyncExitStack() as stack:
            a, b, c = server("a", "b", "c"), server("b", "a", "c"), server("c", "a", "b")
            for each in (a, b, c):
                await each.start()
                stack.push_async_callback(each.stop)
            urls, user, password = split_secret(own_url(section, tmp_path / "a"))
            connection = await asyncio.to_thread(
                lambda: JetStreamConnection(urls, user=user, password=password)
            )
            stack.push_async_callback(asyncio.to_thread, connection.close)
            stream = await asyncio.to_thread(JetStream.open, connection, "S", "s", 3)
            await until_current(stream, "a", "b", "c")
            assert await asyncio.to_thread(stream.publish, b"1", "id", 0) == 1
            await c.stop()
            await asyncio.to_thread(remove, section, tmp_path / "a", "c")
            d = server("d", "a", "b")
            await d.start()
            stack.push_async_callback(d.stop)
            await until_current(stream, "a", "b", "d")

    asyncio.run(story())


def remove(section: ClusterSection, data: Path, node: str) -> None:
    """Remove a node; ask again while the servers elect their leader."""
    until = time.monotonic() + 30
    while True:
        try:
            remove_node(section, data, node)
        except OSError:
            assert time.monotonic() < until
        else:
            return


def test_servers_that_are_not_our_own_are_left_alone(tmp_path: Path) -> None:
    section = ClusterSection(name="c", node="a", nats="nats://elsewhere")
    with pytest.raises(ValueError, match="peer-remove b"):
        remove_node(section, tmp_path, "b")
