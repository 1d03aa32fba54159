"""A bucket on three real servers."""

import time
from uuid import uuid4

import pytest
from tests.transports.jetstream_servers import connection as connection
from tests.transports.jetstream_servers import servers as servers

from dragoman.transports.jetstream_bucket import JetStreamBucket
from dragoman.transports.jetstream_connection import JetStreamConnection

pytestmark = pytest.mark.interop


def bucket(connection: JetStreamConnection, ttl: float) -> JetStreamBucket:
    return JetStreamBucket.open(connection, uuid4().hex, 3, ttl)


def test_a_key_is_created_once(connection: JetStreamConnection) -> None:
    keys = bucket(connection, 60.0)
    assert keys.get("leader") is None
    assert keys.create("leader", b"a") == 1
    assert keys.create("leader", b"b") is None
    assert keys.get("leader") == (b"a", 1)


def test_only_the_newest_revision_is_replaced_or_deleted(connection: JetStreamConnection) -> None:
    keys = bucket(connection, 60.0)
    keys.create("leader", b"a")
    assert keys.update("leader", b"b", 1) == 2
    assert keys.update("leader", b"c", 1) is None
    assert not keys.delete("leader", 1)
    assert keys.delete("leader", 2)
    assert keys.get("leader") is None
    assert keys.create("leader", b"d") == 4


def test_a_key_that_nobody_renews_is_gone(connection: JetStreamConnection) -> None:
    keys = bucket(connection, 1.0)
    keys.create("leader", b"a")
    until = time.monotonic() + 20
    while keys.get("leader") is not None:
        assert time.monotonic() < until
    assert keys.create("leader", b"b") == 2
