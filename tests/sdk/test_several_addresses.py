"""Clients and workers of every dialect move to the next address of their URL."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from dragoman import Client, JobFailed, Worker
from dragoman.cli.broker_call import require_broker
from dragoman.dialects.registry import DIALECTS
from dragoman.model.fault import FaultCode
from dragoman.sdk.errors import Unreachable
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.process
#: ZSS has a port for workers and one for clients; NCL has no clients.
DIALECTS_WITH_CLIENTS = [name for name, each in DIALECTS.items() if each.has_clients]


def unused_place() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def both(first: LocalBroker, second: LocalBroker, dialect: str, *, for_workers: bool) -> str:
    """Return one URL with the addresses of two brokers."""
    other = second.url(dialect, for_workers=for_workers).partition("://")[2]
    return f"{first.url(dialect, for_workers=for_workers)},{other}"


@contextmanager
def echo_worker(url: str, name: str) -> Iterator[Worker]:
    worker = Worker(url, service="s", name=name)
    worker.task(lambda text: [name, text], name="say")
    with worker:
        yield worker


@pytest.mark.parametrize("dialect", DIALECTS_WITH_CLIENTS)
def test_a_dead_first_address_costs_nothing_but_an_attempt(dialect: str) -> None:
    links = {each.name for each in DIALECTS[dialect].listeners}
    with LocalBroker(*links) as broker:

        def url(*, for_workers: bool) -> str:
            scheme, _, place = broker.url(dialect, for_workers=for_workers).partition("://")
            return f"{scheme}://{unused_place()},{place}"

        with echo_worker(url(for_workers=True), "w"), Client(url(for_workers=False)) as client:
            assert client.options(timeout=30).call("s", "say", text="hi") == ["w", "hi"]


@pytest.mark.parametrize("dialect", DIALECTS_WITH_CLIENTS)
def test_peers_move_to_the_second_broker_when_the_first_ends(dialect: str) -> None:
    links = {each.name for each in DIALECTS[dialect].listeners}
    with LocalBroker(*links) as first, LocalBroker(*links) as second, ExitStack() as stack:
        stack.enter_context(echo_worker(both(first, second, dialect, for_workers=True), "w"))
        client = stack.enter_context(Client(both(first, second, dialect, for_workers=False)))
        assert client.options(timeout=30).call("s", "say", text=1) == ["w", 1]
        first.stop()
        assert call_until_known(client) == ["w", 2]


def call_until_known(client: Client) -> object:
    """Call until the broker knows the worker: ZSS and HTTP refuse an unknown service at once."""
    while True:
        try:
            return client.options(timeout=45).call("s", "say", text=2)
        except JobFailed as error:
            if error.fault.code is not FaultCode.NO_WORKER:
                raise


def test_all_addresses_are_named_when_none_answers() -> None:
    places = [unused_place(), unused_place()]
    with pytest.raises(Unreachable) as caught:
        require_broker(f"nfp://{places[0]},{places[1]}")
    assert all(place in str(caught.value) for place in places)
