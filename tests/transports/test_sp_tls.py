"""SP over TLS, against real NNG (pynng) as the other end."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pynng
import pytest
from tests.transports.tls_files import AUTHORITY, write_tls

from dragoman.sdk.issuing import Certificate, new_authority, new_certificate
from dragoman.transports.nng import NngRequester
from dragoman.transports.sp import SpReplier
from dragoman.transports.tls import PeerTls, ServerTls

ANNA = new_certificate(AUTHORITY, "anna")
OTTO = new_certificate(AUTHORITY, "otto")


@pytest.fixture
def tls(tmp_path: Path) -> ServerTls:
    return write_tls(tmp_path)


def peer(own: Certificate | None, authority: Certificate = AUTHORITY) -> PeerTls:
    if own is None:
        return PeerTls(authority.certificate)
    return PeerTls(authority.certificate, own.certificate, own.secret)


class Scene:
    """A replier that answers with the requester's key, and its requesters."""

    def __init__(self, tls: ServerTls | None, admitted: set[str] | None = None) -> None:
        self.admitted = admitted
        admits = None if admitted is None else admitted.__contains__
        self.replier = SpReplier("tcp://127.0.0.1:0", tls=tls, admits=admits)
        self.asked: list[str] = []
        self.endpoint = ""
        self.requesters: list[NngRequester] = []

    def _answer(self) -> None:
        asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        for address, frames in self.replier.drain(100):
            if frames:
                self.asked.append(self.replier.key_of(address))
                self.replier.send(address, [b"heard " + frames[0]])
        self.replier.flush()

    async def requester(self, tls: PeerTls | None) -> tuple[NngRequester, asyncio.Event]:
        arrived = asyncio.Event()
        made = NngRequester(self.endpoint, tls=tls, resend_after=0.2)
        self.requesters.append(made)
        await made.open(arrived.set)
        return made, arrived

    async def ask(self, tls: PeerTls | None) -> list[bytes]:
        """Ask once over a connection of its own."""
        made, arrived = await self.requester(tls)
        made.send(b"", [b"t", b"hello", b"5000"])
        async with asyncio.timeout(8):
            await arrived.wait()
        return made.drain(1)[0][1]

    async def until_trouble(self, reason: str) -> None:
        async with asyncio.timeout(8):
            while not self.replier.trouble[reason]:
                await self._tick()

    async def _tick(self) -> None:
        await asyncio.sleep(0.01)


def tell(scene: Scene, story: Callable[[], Awaitable[None]]) -> None:
    async def told() -> None:
        scene.endpoint = await scene.replier.open(scene._answer)
        try:
            await story()
        finally:
            for made in scene.requesters:
                await made.close()
            await scene.replier.close()

    asyncio.run(told())


def test_real_nng_peers_prove_their_certificates(tls: ServerTls) -> None:
    scene = Scene(tls, {ANNA.key, OTTO.key})

    async def story() -> None:
        assert await scene.ask(peer(ANNA)) == [b"t", b"heard hello"]
        assert await scene.ask(peer(OTTO)) == [b"t", b"heard hello"]
        assert scene.asked == [ANNA.key, OTTO.key]

    tell(scene, story)


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (peer(OTTO), "key refused"),
        (peer(None), "no certificate of ours"),
        (peer(new_certificate(new_authority("b"), "c")), "no certificate of ours"),
        (None, "no TLS"),
    ],
    ids=["another key", "no certificate", "another authority", "plain"],
)
def test_others_are_refused_and_counted(tls: ServerTls, own: PeerTls | None, reason: str) -> None:
    scene = Scene(tls, {ANNA.key})

    async def story() -> None:
        made, _ = await scene.requester(own)
        made.send(b"", [b"t", b"hello", b"5000"])
        await scene.until_trouble(reason)
        assert scene.asked == []
        # Whoever is in order is served all the same.
        assert await scene.ask(peer(ANNA)) == [b"t", b"heard hello"]

    tell(scene, story)


def test_a_peer_that_wants_tls_says_nothing_to_a_plain_replier() -> None:
    scene = Scene(None)

    async def story() -> None:
        made, _ = await scene.requester(peer(ANNA))
        made.send(b"", [b"t", b"hello", b"5000"])
        await scene.until_trouble("bad greeting, but TLS")
        assert scene.asked == []

    tell(scene, story)


def test_a_key_is_cut_off_at_once(tls: ServerTls) -> None:
    admitted = {ANNA.key, OTTO.key}
    scene = Scene(tls, admitted)

    async def story() -> None:
        made, arrived = await scene.requester(peer(ANNA))
        made.send(b"", [b"t", b"hello", b"5000"])
        async with asyncio.timeout(8):
            await arrived.wait()
        admitted.discard(ANNA.key)
        scene.replier.cut(ANNA.key)
        assert scene.replier.trouble["cut off"] == 1
        made.drain(1)
        made.send(b"", [b"t", b"still there?", b"5000"])
        await scene.until_trouble("key refused")
        assert scene.asked == [ANNA.key]
        assert await scene.ask(peer(OTTO)) == [b"t", b"heard hello"]

    tell(scene, story)


def test_a_broker_without_the_right_name_is_not_believed(tls: ServerTls) -> None:
    scene = Scene(tls)

    async def story() -> None:
        with pynng.Req0() as req:
            req.tls_config = pynng.TLSConfig(
                pynng.TLSConfig.MODE_CLIENT,
                server_name="elsewhere.example",
                ca_string=AUTHORITY.certificate,
                own_key_string=ANNA.secret,
                own_cert_string=ANNA.certificate,
                auth_mode=pynng.TLSConfig.AUTH_MODE_REQUIRED,
            )
            with pytest.raises(pynng.exceptions.NNGException):
                await asyncio.to_thread(req.dial, f"tls+{scene.endpoint}", block=True)

    tell(scene, story)


def test_handshakes_that_go_nowhere_give_way_to_others(tls: ServerTls) -> None:
    scene = Scene(tls)

    async def story() -> None:
        scene.replier._handshakes[0]._at_once = 4
        host, _, port = scene.endpoint.partition("://")[2].partition(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
        await scene.until_trouble("gave way in its handshake")
        assert await scene.ask(peer(ANNA)) == [b"t", b"heard hello"]
        for _, writer in idle:
            writer.close()

    tell(scene, story)
