"""TLS contexts: a handshake between both ends, in memory."""

import asyncio
import ssl
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tests.transports.tls_files import AUTHORITY, OURS, write_tls

from dragoman.sdk.issuing import Certificate, new_authority, new_certificate
from dragoman.transports import accept_limiter
from dragoman.transports.tls import (
    CHECK_EVERY,
    PeerTls,
    ReloadingContext,
    ServerTls,
    TlsHandshakes,
    key_of_certificate,
)


@pytest.fixture
def server(tmp_path: Path) -> ServerTls:
    return write_tls(tmp_path)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> str:
    """Run a handshake in memory; return the key that the server saw."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = server.wrap_bio(up, down, server_side=True)
    here = client.wrap_bio(down, up, server_hostname=host)
    waiting = [here, there]
    for _ in range(10):
        for each in list(waiting):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(each)
        if not waiting:
            break
    return key_of_certificate(there.getpeercert(binary_form=True))


def test_the_key_of_a_peer_is_the_fingerprint_of_its_certificate(server: ServerTls) -> None:
    anna = new_certificate(AUTHORITY, "anna")
    peer = PeerTls(AUTHORITY.certificate, anna.certificate, anna.secret)
    assert shake_hands(server.context(), peer.context()) == anna.key


def test_a_peer_without_a_certificate_is_refused_unless_that_will_do(server: ServerTls) -> None:
    peer = PeerTls(AUTHORITY.certificate)
    with pytest.raises(ssl.SSLError, match=r"(?i)peer did not return a certificate"):
        shake_hands(server.context(), peer.context())
    assert shake_hands(server.context(is_optional=True), peer.context()) == ""


def test_a_certificate_of_another_authority_is_refused(server: ServerTls) -> None:
    elsewhere = new_authority("elsewhere")
    mallory = new_certificate(elsewhere, "mallory")
    peer = PeerTls(AUTHORITY.certificate, mallory.certificate, mallory.secret)
    with pytest.raises(ssl.SSLError, match=r"(?i)unable to get local issuer|unknown ca"):
        shake_hands(server.context(is_optional=True), peer.context())


def test_a_peer_believes_no_other_broker(server: ServerTls) -> None:
    peer = PeerTls(new_authority("elsewhere").certificate)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server.context(is_optional=True), peer.context())


def test_a_peer_wants_the_host_it_asked_for(server: ServerTls) -> None:
    peer = PeerTls(AUTHORITY.certificate)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)hostname mismatch"):
        shake_hands(server.context(is_optional=True), peer.context(), "example.net")


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.pem"
    with pytest.raises(ValueError, match=r"cannot use .*nowhere"):
        ServerTls(nowhere, nowhere, nowhere).context()


class Follower:
    """A reloading context with a clock of its own."""

    def __init__(self, tls: ServerTls) -> None:
        self.tls = tls
        self.now = 0.0
        self._live = ReloadingContext(tls, True, lambda: self.now)

    def shown(self, later: float = 1.0) -> str:
        """Return the key of the certificate that a handshake sees after a while."""
        self.now += later
        client = PeerTls(AUTHORITY.certificate).context()
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        there = self._live().wrap_bio(up, down, server_side=True)
        here = client.wrap_bio(down, up, server_hostname="localhost")
        for _ in range(4):
            for each in (here, there):
                with suppress(ssl.SSLWantReadError):
                    each.do_handshake()
        return key_of_certificate(here.getpeercert(binary_form=True))


def test_a_certificate_that_was_replaced_is_shown_and_a_broken_one_is_not(
    server: ServerTls, caplog: pytest.LogCaptureFixture
) -> None:
    follower = Follower(server)
    new = new_certificate(AUTHORITY, "broker", ("localhost",))
    assert follower.shown() == OURS.key
    server.certificate.write_text(new.certificate)
    assert follower.shown() == OURS.key, "the key for it is not there yet"
    assert "the last good certificate stays in force" in caplog.text
    assert len(caplog.records) == 1
    assert follower.shown() == OURS.key
    assert len(caplog.records) == 1, "it is said once for each change"
    server.key.write_text(new.secret)
    assert follower.shown() == new.key
    server.certificate.unlink()
    assert follower.shown() == new.key


def test_files_are_not_looked_at_for_every_handshake(server: ServerTls) -> None:
    follower = Follower(server)
    new = new_certificate(AUTHORITY, "broker", ("localhost",))
    server.certificate.write_text(new.certificate)
    server.key.write_text(new.secret)
    assert follower.shown(later=CHECK_EVERY / 2) == OURS.key
    assert follower.shown(later=CHECK_EVERY / 2) == new.key


def test_nothing_secret_is_shown() -> None:
    anna = new_certificate(AUTHORITY, "anna")
    shown = repr(anna) + repr(PeerTls(AUTHORITY.certificate, anna.certificate, anna.secret))
    assert "PRIVATE" not in shown
    assert isinstance(anna, Certificate)


class _Heard(asyncio.Protocol):
    """Sends hello after the handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")


def test_too_many_failed_handshakes_block_their_address_only(
    server: ServerTls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accept_limiter, "FAILURES_AT_ONCE", 3.0)
    trouble: Counter[str] = Counter()

    async def story() -> None:
        handshakes = TlsHandshakes(
            server.reloading_context(is_optional=True), _Heard, lambda why: trouble.update([why])
        )
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(handshakes.protocol, "127.0.0.1", 0)
        (place,) = listener.sockets
        handshakes.attach(place.fileno())
        host, port = place.getsockname()
        while not trouble[accept_limiter.OVER_LIMIT]:
            # A loopback address of their own.
            reader, writer = await asyncio.open_connection(host, port, local_addr=("127.0.0.2", 0))
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await reader.read()
            writer.close()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await asyncio.open_connection(host, port, local_addr=("127.0.0.2", 0))
        honest = PeerTls(AUTHORITY.certificate).context()
        reader, writer = await asyncio.open_connection(
            host, port, ssl=honest, server_hostname="localhost"
        )
        assert await reader.readexactly(5) == b"hello"
        writer.transport.abort()
        handshakes.close()
        listener.close()

    asyncio.run(story())
    assert trouble["no TLS"] >= 3
