"""Simulated connections between brokers: in order, late after a stall, lost after a break."""

from typing import Any

from dragoman.testing.mesh_links import MeshConnection
from dragoman.testing.world import World


class Site:
    def __init__(self) -> None:
        self.world = World(1)
        self.arrived: list[tuple[str, bytes, Any]] = []
        self.connection = MeshConnection(
            self.world, "a", "b", lambda *message: self.arrived.append(message)
        )

    def run(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.next_at() <= until:
            self.world.step()
        self.world.now = until


def test_messages_arrive_in_order_under_the_name_of_the_sender() -> None:
    site = Site()
    for number in range(3):
        site.connection.carry("a", [number])
    site.run(1.0)
    assert site.arrived == [("b", b"a", [n]) for n in range(3)]


def test_a_stalled_connection_delivers_everything_later_and_in_order() -> None:
    site = Site()
    site.connection.carry("a", [0])
    site.connection.stall(5.0)
    site.connection.carry("a", [1])
    site.run(4.0)
    assert site.arrived == []
    site.run(2.0)
    assert [frames for _, _, frames in site.arrived] == [[0], [1]]


def test_a_break_is_told_to_the_one_that_connected_and_loses_some_messages() -> None:
    site = Site()
    for number in range(20):
        site.connection.carry("b", [number])
    site.connection.break_off(3.0)
    assert site.arrived == [("a", b"b", [])]
    assert site.connection.is_down
    site.run(10.0)
    assert 0 < len(site.arrived) - 1 < 20
    assert not site.connection.is_down
