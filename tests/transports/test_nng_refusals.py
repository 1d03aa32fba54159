"""A requester learns that its certificate is refused, which NNG itself does not tell."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.transports.test_sp_tls import ANNA, OTTO, Scene, peer
from tests.transports.tls_files import write_tls

from dragoman.sdk.issuing import new_authority
from dragoman.transports.addresses import Addresses
from dragoman.transports.nng import NngRequester
from dragoman.transports.nng_refusals import RefusalProbe, probe


def play(folder: Path, story: Callable[[Scene], Awaitable[None]]) -> None:
    async def scene() -> None:
        stage = Scene(write_tls(folder), {ANNA.key})
        stage.endpoint = await stage.replier.open(stage._answer)
        try:
            await story(stage)
        finally:
            for requester in stage.requesters:
                await requester.close()
            await stage.replier.close()

    asyncio.run(scene())


async def tick() -> None:
    await asyncio.sleep(0.02)


async def refusal_of(requester: NngRequester, *, is_there: bool = True) -> str:
    async with asyncio.timeout(20):
        while bool(requester.refusal) is not is_there:
            await tick()
    return requester.refusal


def test_a_certificate_that_the_broker_does_not_admit_is_named(tmp_path: Path) -> None:
    async def story(stage: Scene) -> None:
        otto, _ = await stage.requester(peer(OTTO))
        assert "refuses this certificate" in await refusal_of(otto)
        # Approved in the meantime: NNG connects, and nothing is refused any more.
        assert stage.admitted is not None
        stage.admitted.add(OTTO.key)
        await refusal_of(otto, is_there=False)

    play(tmp_path, story)


def test_a_certificate_that_is_revoked_during_a_connection_is_named(tmp_path: Path) -> None:
    async def story(stage: Scene) -> None:
        anna, arrived = await stage.requester(peer(ANNA))
        anna.send(b"", [b"1", b"hello"])
        async with asyncio.timeout(20):
            await arrived.wait()
        assert anna.refusal == ""
        assert stage.admitted is not None
        stage.admitted.clear()
        stage.replier.cut(ANNA.key)
        assert "refuses this certificate" in await refusal_of(anna)

    play(tmp_path, story)


def test_a_broker_of_another_authority_is_named_and_one_that_is_away_is_not(tmp_path: Path) -> None:
    async def story(stage: Scene) -> None:
        other, _ = await stage.requester(peer(ANNA, new_authority("other")))
        assert "no TLS with the broker" in await refusal_of(other)
        assert probe(("127.0.0.1", 9), peer(ANNA)) == ""

    play(tmp_path, story)


@pytest.mark.parametrize("turns", range(4))
def test_a_watch_ends_although_a_connection_comes_in_the_same_turn(turns: int) -> None:
    async def story() -> None:
        watch = RefusalProbe(Addresses("tls+tcp://127.0.0.1:9"), peer(ANNA))
        watch.watch(NoSocket())
        await asyncio.sleep(0)
        watch._count(1)
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await watch.close()

    asyncio.run(story())


class NoSocket:
    def add_post_pipe_connect_cb(self, call: object) -> None: ...

    def add_post_pipe_remove_cb(self, call: object) -> None: ...
