"""The broker's certificate is replaced while it runs: new connections see the new one."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.interop.harness import until
from tests.interop.secured import HOSTS, SecuredSite

from dragoman.sdk.issuing import new_certificate
from dragoman.testing.harness import LocalBroker
from dragoman.transports.tls import PeerTls, key_of_certificate

pytestmark = pytest.mark.interop

#: What a client of each listener says after the handshake, and how the answer begins.
TALK = {
    "http": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 200"),
    "memo": (b"\0SP\0\x00\x30\0\0", b"\0SP\0\x00\x31\0\0"),
    "nats": (b'CONNECT {"verbose":false}\r\nPING\r\n', b"PONG"),
}


@contextmanager
def line(site: SecuredSite, broker: LocalBroker, link: str) -> Iterator[ssl.SSLSocket]:
    """Shake hands with a listener."""
    place = urlsplit(broker.endpoints[link])
    _, made, _ = site.peer(f"peer-{link}")
    context = PeerTls(made.authority, made.certificate, made.key).context()
    with socket.create_connection((place.hostname or "", place.port or 0), 20) as plain:
        if link == "nats":
            assert plain.recv(4096).startswith(b"INFO ")
        with context.wrap_socket(plain, server_hostname="localhost") as tls:
            yield tls


def shown(site: SecuredSite, broker: LocalBroker, link: str) -> str:
    with line(site, broker, link) as tls:
        return key_of_certificate(tls.getpeercert(binary_form=True))


@pytest.mark.parametrize("link", list(TALK))
def test_connections_after_the_swap_see_the_new_certificate_and_old_ones_live_on(
    tmp_path: Path, link: str
) -> None:
    site = SecuredSite(tmp_path / "house")
    words, answer = TALK[link]
    with site.broker(link) as broker, line(site, broker, link) as old:
        first = key_of_certificate(old.getpeercert(binary_form=True))
        assert shown(site, broker, link) == first
        new = new_certificate(site.authority, "broker", HOSTS)
        # As a tool would that knows nothing of us: one file after the other.
        site.files["certificate"].write_text(new.certificate)
        assert shown(site, broker, link) == first, "half a swap is none"
        site.files["key"].write_text(new.secret)
        until(lambda: shown(site, broker, link) == new.key, "the new certificate is shown")
        old.sendall(words)
        assert old.recv(len(answer)) == answer
        with line(site, broker, link) as another:
            another.sendall(words)
            assert another.recv(len(answer)) == answer
