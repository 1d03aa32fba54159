"""A node's part in its cluster: its nats-server, its streams, and what it tells the others."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.ledger.layout import LEDGER_FILE
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.server.cluster_member import (
    ClusterMember,
    find_section,
    own_url,
    remember_section,
    split_secret,
)
from dragoman.server.cluster_node import Role
from dragoman.server.cluster_settings import ClusterSection
from dragoman.server.lease import LeaseHolder
from dragoman.server.member_channel import MemberChannel
from dragoman.server.settings import BrokerSettings
from dragoman.server.settings_sources import load
from dragoman.transports.origins import ORIGINS


def settings(tmp_path: Path, **cluster: Any) -> BrokerSettings:
    (tmp_path / "cluster.token").write_text("0123456789abcdef")
    off = dict.fromkeys(("dcp", "zss", "zss_backend", "memo", "mdp", "nats", "http"), "off")
    listen = off | {"nfp": "127.0.0.1:5555"}
    return load(data=tmp_path, listen=listen, cluster={"name": "c", "node": "a", **cluster})


class Leading:
    """A broker that leads."""

    role = Role.LEADER
    leader = LeaseHolder("a", 7, {})
    lag = 0
    steps = 0

    def step_down(self) -> None:
        self.steps += 1


def test_a_ledger_does_not_cross_the_network_unencrypted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unencrypted"):
        ClusterMember(settings(tmp_path, join="b:6222"))


def test_a_node_needs_its_secret(tmp_path: Path) -> None:
    found = settings(tmp_path)
    (tmp_path / "cluster.token").unlink()
    with pytest.raises(ValueError, match="dragoman cluster token"):
        ClusterMember(found)


def test_secrets_are_taken_out_of_a_url() -> None:
    assert split_secret("nats://u:p@a:1,b:2") == (["nats://a:1", "nats://b:2"], "u", "p")
    assert split_secret("nats://a:1") == (["nats://a:1"], "", "")


def test_commands_know_how_the_node_was_started(tmp_path: Path) -> None:
    alone = load(data=tmp_path)
    with pytest.raises(ValueError, match="no node of a cluster has run"):
        find_section(alone)
    (tmp_path / "cluster").mkdir()
    section = ClusterSection(name="c", node="a", join=("b:1",), token=tmp_path / "t")
    remember_section(section, tmp_path)
    assert find_section(alone) == section
    named = settings(tmp_path)
    assert find_section(named) is named.cluster
    with pytest.raises(ValueError, match="never run"):
        own_url(section, tmp_path)


@pytest.mark.interop
def test_a_cluster_of_one_has_streams_and_answers(tmp_path: Path) -> None:
    found, broker = settings(tmp_path), Leading()
    ledger = SqliteLedger(tmp_path / LEDGER_FILE)

    async def story() -> None:
        member = ClusterMember(found)
        node = await member.open()
        asking = MemberChannel(own_url(found.cluster, tmp_path), "c")
        await asking.open()
        try:
            assert await asyncio.to_thread(node.stream.last_sequence) == 0
            assert await asyncio.to_thread(node.bucket.create, "leader", b"x") is not None
            before = await asking.ask("a", "status", 20)
            assert (before["role"], before["leader"]) == ("neither", "")
            member.attach(broker)
            after = await asking.ask("a", "status", 20)
            assert (after["role"], after["leader"], after["epoch"]) == ("leader", "a", 7)
            assert node.ask_nodes is not None
            [own] = await node.ask_nodes()
            assert (own["node"], own["role"], own["epoch"]) == ("a", "leader", 7)
            assert (await asking.ask("a", "mark", 20, seq=1))["mark"] == ""
            assert await asking.ask("a", "step_down", 20) == {"done": True, "node": "a"}
            await asking.ask("a", "origin", 20, source="10.0.0.2:7", origin="10.9.9.9:1", by="b")
            assert ORIGINS.node_of(("10.0.0.2", 7)) == "b"
        finally:
            await asking.close()
            await member.close()
            await ledger.close()

    asyncio.run(story())
    assert broker.steps == 1
