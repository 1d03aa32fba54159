"""A standby passes connections to the leader that the lease names."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from dragoman.server.cluster_pass_through import (
    ClusterPassThrough,
    advertise,
    no_leader_answer,
    passed_endpoints,
    require_fixed_ports,
)
from dragoman.server.lease import LeaseHolder
from dragoman.server.settings import BrokerSettings
from dragoman.server.settings_sources import load


def settings(tmp_path: Path, links: dict[str, str], **cluster: Any) -> BrokerSettings:
    off = dict.fromkeys(("nfp", "dcp", "zss", "zss_backend", "memo", "mdp", "nats", "http"), "off")
    own = {"name": "c", "node": "b", **cluster}
    return load(data=tmp_path, listen=off | links, cluster=own)


def free_place() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_every_link_that_is_on_is_passed_through(tmp_path: Path) -> None:
    listen = {"nfp": "tcp://0.0.0.0:5555,ipc:///tmp/x", "http": "127.0.0.1:8420", "nats": ""}
    assert passed_endpoints(settings(tmp_path, listen)) == {
        "nfp": "tcp://0.0.0.0:5555,ipc:///tmp/x",
        "http": "tcp://127.0.0.1:8420",
        "nats": "tcp://127.0.0.1:4222",
    }
    assert passed_endpoints(settings(tmp_path, {"nats": "nats://other:4222"})) == {}


def test_a_port_that_is_picked_at_the_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nfp of a cluster needs a fixed port"):
        require_fixed_ports(settings(tmp_path, {"nfp": "127.0.0.1:0"}))


def test_a_leader_names_endpoints_that_the_others_reach(tmp_path: Path) -> None:
    far = settings(tmp_path, {}, listen="10.0.0.1:6222")
    bound = {"nfp": "tcp://0.0.0.0:5555", "http": "http://10.0.0.1:8420", "local": "memory://"}
    assert advertise(far, {**bound, "dcp": "tcp://127.0.0.1:1"}) == {
        "nfp": "tcp://10.0.0.1:5555",
        "http": "tcp://10.0.0.1:8420",
    }
    near = settings(tmp_path, {}, listen="127.0.0.2:6222")
    assert advertise(near, {"dcp": "tcp://127.0.0.2:1"}) == {"dcp": "tcp://127.0.0.2:1"}


def test_connections_go_to_the_leader_and_are_cut_when_it_changes(tmp_path: Path) -> None:
    place, told = free_place(), list[tuple[str, str]]()

    async def announce(node: str, source: str, origin: str) -> None:
        told.append((node, origin))

    async def serve(name: bytes) -> tuple[asyncio.Server, str]:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(name)
            await reader.read(-1)
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        return server, f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def story() -> None:
        (one, at_one), (two, at_two) = await serve(b"1"), await serve(b"2")
        holder = [LeaseHolder("a", 1, {"nfp": at_one})]
        passing = ClusterPassThrough(settings(tmp_path, {"nfp": place}), announce)
        await passing.open(lambda: holder[0])
        host, port = place.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        own = writer.get_extra_info("sockname")
        assert await reader.readexactly(1) == b"1"
        assert told == [("a", f"{own[0]}:{own[1]}")]
        assert passing.connection_count == 1
        holder[0] = LeaseHolder("c", 2, {"nfp": at_two})
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await reader.readexactly(1) == b"2"
        writer.close()
        await passing.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))
        one.close()
        two.close()

    asyncio.run(asyncio.wait_for(story(), 20))


def test_a_node_never_passes_connections_to_itself(tmp_path: Path) -> None:
    async def announce(node: str, source: str, origin: str) -> None:
        raise AssertionError("nothing to announce")

    passing = ClusterPassThrough(settings(tmp_path, {}), announce)
    passing._holder = lambda: LeaseHolder("b", 1, {"nfp": "tcp://127.0.0.1:1"})
    assert passing._target("nfp") is None


def test_an_http_peer_is_told_that_no_node_leads() -> None:
    head, _, content = no_leader_answer("b").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert f"Content-Length: {len(content)}".encode() in head
    found = json.loads(content)
    assert (found["role"], found["node"], found["leader"]) == ("neither", "b", "")
