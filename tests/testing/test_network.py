"""The simulated network: each fault."""

from typing import Any

import pytest

from dragoman.testing.network import MessageFaults, Network
from dragoman.testing.world import World


def carried(message_faults: MessageFaults, messages: int = 50, **setting: Any) -> list[int]:
    world = World(3)
    network, arrived = Network(world, message_faults), list[int]()
    for name, value in setting.items():
        setattr(network, name, value)
    for n in range(messages):
        network.send("a", "broker", arrived.append, n)
    while world.step():
        pass
    return arrived


def test_without_faults_everything_arrives_once_and_in_order() -> None:
    assert carried(MessageFaults()) == list(range(50))


def test_late_messages_keep_their_order() -> None:
    assert carried(MessageFaults(delay=0.5)) == list(range(50))


def test_lost_messages_do_not_arrive() -> None:
    assert 5 < len(carried(MessageFaults(loss=0.5))) < 45


def test_doubled_messages_arrive_again() -> None:
    arrived = carried(MessageFaults(duplication=0.5))
    assert set(arrived) == set(range(50))
    assert len(arrived) > 60


def test_reordered_messages_overtake_each_other() -> None:
    arrived = carried(MessageFaults(reordering=0.5))
    assert sorted(arrived) == list(range(50)) != arrived


@pytest.mark.parametrize("peer", ["a", "broker"])
def test_a_peer_that_is_cut_off_neither_sends_nor_receives(peer: str) -> None:
    assert carried(MessageFaults(), cut_off={peer}) == []


def test_a_peer_on_a_connection_is_spared_reordering_and_doubling() -> None:
    rough = MessageFaults(duplication=0.9, reordering=0.9)
    assert carried(rough, connected={"a"}) == list(range(50))


def test_a_healed_world_has_no_faults() -> None:
    world = World(1)
    network, arrived = Network(world, MessageFaults(loss=1.0)), list[int]()
    world.is_faulty = False
    network.send("a", "b", arrived.append, 1)
    world.step()
    assert arrived == [1]
    assert world.faults == {}
