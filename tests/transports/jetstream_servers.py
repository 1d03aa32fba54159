"""A connection to three real servers, shared by the tests of one module."""

from collections.abc import Iterator

import pytest
from tests.nats_trio import NatsTrio

from dragoman.transports.jetstream_connection import JetStreamConnection


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsTrio]:
    with NatsTrio(tmp_path_factory.mktemp("nats")) as trio:
        yield trio


@pytest.fixture(scope="module")
def connection(servers: NatsTrio) -> Iterator[JetStreamConnection]:
    opened = JetStreamConnection(servers.urls)
    yield opened
    opened.close()
