"""The addresses of one broker: split, tried in turn, with growing patience."""

import pytest

from dragoman.transports.addresses import PATIENCE, Addresses, split_addresses, split_endpoint


@pytest.mark.parametrize(
    ("endpoint", "parts"),
    [("tcp://host:5555", ("host", 5555)), ("tcp://[::1]:80", ("::1", 80))],
)
def test_an_endpoint_is_host_and_port(endpoint: str, parts: tuple[str, int]) -> None:
    assert split_endpoint(endpoint) == parts


@pytest.mark.parametrize(
    ("endpoint", "each"),
    [
        ("tcp://a:1", ("tcp://a:1",)),
        ("tcp://a:1,[::1]:2", ("tcp://a:1", "tcp://[::1]:2")),
        ("tcp://who:pass@a:1,b:2", ("tcp://who:pass@a:1", "tcp://who:pass@b:2")),
        ("ipc:///tmp/a,b.sock", ("ipc:///tmp/a,b.sock",)),
    ],
)
def test_each_address_has_the_scheme_and_the_secret(endpoint: str, each: tuple[str, ...]) -> None:
    assert split_addresses(endpoint) == each


def test_a_failed_address_is_followed_by_the_next_one_and_the_last_by_the_first() -> None:
    addresses = Addresses("tcp://a:1,b:2")
    assert [addresses.current, addresses.move_on(), addresses.move_on()] == [
        "tcp://a:1",
        "tcp://b:2",
        "tcp://a:1",
    ]


def test_patience_doubles_after_each_round_without_an_answer() -> None:
    addresses = Addresses("tcp://a:1,b:2")
    seen = []
    for _ in range(5):
        seen.append(addresses.patience)
        addresses.move_on()
    first = PATIENCE[0]
    assert seen == [first, first, 2 * first, 2 * first, 4 * first]
    for _ in range(50):
        addresses.move_on()
    assert addresses.patience == PATIENCE[1]
    addresses.answered()
    assert addresses.patience == first


def test_the_only_address_has_as_long_as_it_takes() -> None:
    assert Addresses("tcp://a:1").patience is None
    assert Addresses("tcp://a:1").have_all_failed


def test_a_round_is_over_with_its_last_address() -> None:
    addresses = Addresses("tcp://a:1,b:2")
    assert not addresses.have_all_failed
    addresses.move_on()
    assert addresses.have_all_failed
