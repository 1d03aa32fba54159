"""The in-memory transport keeps the contract that real ones keep."""

import asyncio

from dragoman.transports.base import Sent
from dragoman.transports.memory import MemoryHub


def test_what_a_peer_says_arrives_with_its_address_and_wakes_the_broker() -> None:
    hub, woken = MemoryHub(), []
    asyncio.run(hub.open(lambda: woken.append(True)))
    hub.connect(b"a").say([b"x", b"y"])
    assert list(hub.drain(10)) == [(b"a", [b"x", b"y"])]
    assert woken


def test_a_drain_is_bounded_and_asks_to_be_called_again() -> None:
    hub, woken = MemoryHub(), []
    asyncio.run(hub.open(lambda: woken.append(True)))
    peer = hub.connect(b"a")
    for n in range(3):
        peer.say([bytes([n])])
    woken.clear()
    assert len(list(hub.drain(2))) == 2
    assert woken


def test_a_full_inbox_is_back_pressure_and_a_vanished_peer_is_gone() -> None:
    hub = MemoryHub(bound=1)
    peer = hub.connect(b"a")
    assert hub.send(b"a", [b"1"]) is Sent.YES
    assert hub.send(b"a", [b"2"]) is Sent.FULL
    assert list(peer.inbox) == [[b"1"]]
    hub.disconnect(b"a")
    assert hub.send(b"a", [b"3"]) is Sent.GONE


def test_closing_lets_go_of_every_peer() -> None:
    hub = MemoryHub()
    hub.connect(b"a")
    asyncio.run(hub.close())
    assert hub.send(b"a", []) is Sent.GONE
