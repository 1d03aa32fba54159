"""Strangers by the hundred at every secured listener, and an honest client among them."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from tests.interop.secured import SecuredSite

from dragoman import Client
from dragoman.security.registry import KeyRegistry
from dragoman.testing.harness import LocalBroker

pytestmark = [pytest.mark.scale, pytest.mark.timeout(120)]

STRANGERS = 400
CALLS = 30


def _by_curve(broker: LocalBroker, site: SecuredSite) -> None:
    """Shake hands with keys that nobody knows, each to its end; 50 others are held."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    held = [_stranger(context, site) for _ in range(50)]
    for each in held:
        each.connect(broker.endpoints["nfp"])
    for _ in range(STRANGERS // 50):
        crowd = []
        for _ in range(50):
            each = _stranger(context, site)
            # Whoever says that it retries is refused with an ERROR, and not held.
            each.setsockopt(zmq.METADATA, b"X-Retries:1")
            monitor = each.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
            each.connect(broker.endpoints["nfp"])
            crowd.append((each, monitor))
        for each, monitor in crowd:
            monitor.poll(20_000)
            each.disable_monitor()
            monitor.close()
            each.close()
    for each in held:
        each.close()
    context.term()


def _stranger(context: "zmq.Context[zmq.Socket[bytes]]", site: SecuredSite) -> "zmq.Socket[bytes]":
    made = context.socket(zmq.DEALER)
    made.setsockopt(zmq.LINGER, 0)
    made.curve_publickey, made.curve_secretkey = zmq.curve_keypair()
    made.curve_serverkey = site.public.encode()
    return made


def _by_tls(link: str) -> Callable[[LocalBroker, SecuredSite], None]:
    def strangers(broker: LocalBroker, site: SecuredSite) -> None:
        """Half of them say nothing at all, half speak without TLS."""
        host, _, port = broker.endpoints[link].partition("://")[2].partition(":")
        with contextlib.ExitStack() as silent:
            for n in range(STRANGERS):
                line = socket.create_connection((host, int(port)), timeout=20)
                if n % 2:
                    silent.enter_context(line)
                    continue
                with line, contextlib.suppress(OSError):
                    line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    line.recv(1)

    return strangers


@contextmanager
def _meanwhile(work: Callable[[], None]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=work)
    thread.start()
    yield thread
    thread.join(100)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("link", "strangers"),
    [("nfp", _by_curve), ("memo", _by_tls("memo")), ("http", _by_tls("http"))],
)
def test_an_honest_client_is_served_among_strangers(
    tmp_path: Path, link: str, strangers: Callable[[LocalBroker, SecuredSite], None]
) -> None:
    site = SecuredSite(tmp_path / "house")
    registry = KeyRegistry.open(tmp_path / "registry.json")
    _, anna, keys = site.peer("anna")
    for key in keys:
        registry.add(key, "anna", now=time.time(), roles=("admin",))
    security = {"enabled": True, "registry": registry.path}
    # What the honest one asks is answered by the broker itself, over the listener in question.
    with site.broker(link, security=security, ledger={"seal": False}) as broker:
        url = broker.endpoints[link] if link == "http" else broker.url(link)
        loop = broker.server.loop  # it is gone once the broker has stopped
        with (
            Client(url, credentials=anna) as client,
            _meanwhile(lambda: strangers(broker, site)) as flood,
        ):
            served = 0
            while served < CALLS or flood.is_alive():
                client.call("mmi.service.broker", "list_workers", timeout=20)
                served += 1
    assert loop is not None
    refused = sum(loop.links.by_name[link].refused.values())
    assert refused >= STRANGERS // 2 - 10, "the strangers were not there"
