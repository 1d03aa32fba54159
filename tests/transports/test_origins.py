"""Whose connection is it, when another node passed it through."""

from typing import Any

from dragoman.transports.origins import Origins


class Wire:
    """A transport that says where it comes from."""

    def __init__(self, name: Any) -> None:
        self._name = name

    def get_extra_info(self, key: str) -> Any:
        assert key == "peername"
        return self._name


def test_a_connection_that_nobody_announced_is_its_own_origin() -> None:
    origins = Origins()
    assert origins.address_of(Wire(("10.0.0.1", 5))) == ("10.0.0.1", 5)
    assert origins.node_of(("10.0.0.1", 5)) == ""
    assert origins.address_of(Wire("")) is None


def test_an_announced_connection_is_the_peers_until_it_ends() -> None:
    origins, wire = Origins(), Wire(("10.0.0.2", 7))
    origins.add("10.0.0.2:7", "[::1]:9", "b")
    assert origins.address_of(wire) == ("[::1]", 9)
    assert origins.node_of(("10.0.0.2", 7)) == "b"
    origins.forget(wire)
    assert origins.address_of(wire) == ("10.0.0.2", 7)


def test_a_peer_of_an_ipc_endpoint_has_no_address_of_its_own() -> None:
    origins = Origins()
    origins.add("10.0.0.2:7", "", "b")
    assert origins.address_of(Wire(("10.0.0.2", 7))) == ("10.0.0.2", 7)


def test_the_oldest_are_forgotten_first() -> None:
    origins = Origins()
    for port in range(60_000):
        origins.add(f"h:{port}", "peer:1", "b")
    assert origins.node_of(("h", 0)) == ""
    assert origins.node_of(("h", 59_999)) == "b"
