"""The simulated transport: an inbox, and sends into the network."""

import asyncio
from typing import Any

from dragoman.testing.network import MessageFaults, Network
from dragoman.testing.sim_transport import SimTransport
from dragoman.testing.world import World
from dragoman.transports.base import Sent


def make(peers: dict[Any, list[Any]]) -> tuple[SimTransport, World]:
    world = World(1)
    world.is_faulty = False

    def find(link: str, address: Any) -> Any:
        return (address, peers[link, address].append) if (link, address) in peers else None

    return SimTransport("x", Network(world, MessageFaults()), find), world


def test_what_arrives_is_drained_in_order_and_the_rest_is_announced_again() -> None:
    transport, _ = make({})
    wakes: list[None] = []
    assert asyncio.run(transport.open(lambda: wakes.append(None))) == "memory:x"
    for n in range(3):
        transport.arrive("p", n)
    assert len(wakes) == 3
    assert list(transport.drain(2)) == [("p", 0), ("p", 1)]
    assert len(wakes) == 4
    assert list(transport.drain(2)) == [("p", 2)]
    assert len(wakes) == 4


def test_a_message_reaches_its_peer_through_the_network_or_nobody_is_there() -> None:
    heard: list[Any] = []
    transport, world = make({("x", "p"): heard})
    assert transport.send("p", b"hello") is Sent.YES
    assert transport.send("q", b"hello") is Sent.GONE
    while world.next_at() < float("inf"):
        world.step()
    assert heard == [b"hello"]
