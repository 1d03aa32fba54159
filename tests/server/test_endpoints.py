"""Endpoints are checked before anything is opened."""

import pytest

from dragoman.dialects.listeners import listener
from dragoman.server.endpoints import check_endpoint


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("nfp", "tcp://*:5555"),
        ("nfp", "tcp://127.0.0.1:1, ipc:///tmp/s"),
        ("nfp", "off"),
        ("memo", "ipc://relative"),
        ("nats", "nats://user@elsewhere"),
        ("nats", "tls://elsewhere:4222"),
        ("nats", "tcp://127.0.0.1:0"),
        ("http", "http://localhost:0"),
    ],
)
def test_usable_endpoints_pass(name: str, given: str) -> None:
    assert check_endpoint(listener(name), given) == given


@pytest.mark.parametrize(
    ("name", "given", "forms"),
    [
        ("nfp", "nonsense", "tcp://HOST:PORT, HOST:PORT, ipc:///PATH, or off"),
        ("nfp", "http://127.0.0.1:1", "tcp://HOST:PORT"),
        ("nfp", "tcp://127.0.0.1:x", "tcp://HOST:PORT"),
        ("nfp", "ipc://", "ipc:///PATH"),
        ("nats", "ipc:///x", "nats://HOST:PORT of another server"),
        ("http", "ipc:///x", "http://HOST:PORT, HOST:PORT, or off"),
    ],
)
def test_an_unusable_endpoint_is_refused_with_the_possible_forms(
    name: str, given: str, forms: str
) -> None:
    with pytest.raises(ValueError, match="is not an endpoint") as caught:
        check_endpoint(listener(name), given)
    assert forms in str(caught.value)
