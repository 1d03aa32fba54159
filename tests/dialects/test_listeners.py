"""The table of listeners: ports of URLs, default endpoints."""

import pytest

from dragoman.dialects.listeners import CLIENT_PORTS, LISTENERS, WORKER_PORTS, listener


def test_clients_and_workers_of_zss_have_different_ports() -> None:
    assert (CLIENT_PORTS["zss"], WORKER_PORTS["zss"]) == (7777, 7776)
    different = {name for name in CLIENT_PORTS if CLIENT_PORTS[name] != WORKER_PORTS[name]}
    assert different == {"zss"}


def test_names_and_ports_are_unique() -> None:
    assert len({each.name for each in LISTENERS}) == len(LISTENERS)
    assert len({each.port for each in LISTENERS}) == len(LISTENERS)


def test_every_default_endpoint_is_on_this_machine() -> None:
    assert listener("dcp").default == "tcp://127.0.0.1:5566"
    assert listener("http").default == "http://127.0.0.1:8420"
    assert listener("nats").default == ""


@pytest.mark.parametrize(
    ("name", "given", "endpoint"),
    [
        ("nfp", "127.0.0.1:0", "tcp://127.0.0.1:0"),
        ("http", "127.0.0.1:0", "http://127.0.0.1:0"),
        ("http", "tcp://127.0.0.1:0", "http://127.0.0.1:0"),
        ("nfp", "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"),
        ("nfp", "ipc:///tmp/s", "ipc:///tmp/s"),
        ("nfp", "off", "off"),
        ("nats", "", ""),
    ],
)
def test_an_endpoint_without_a_scheme_gets_the_listeners(
    name: str, given: str, endpoint: str
) -> None:
    assert listener(name).complete(given) == endpoint
