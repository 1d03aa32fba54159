"""Members of a cluster ask each other over NATS."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.server.member_channel import Content, MemberChannel
from dragoman.transports.nats_server import NatsServer

pytestmark = pytest.mark.interop


@asynccontextmanager
async def member(url: str, node: str, cluster: str = "c") -> AsyncIterator[MemberChannel]:
    def answer(content: Content) -> Content:
        return {"heard": content["text"]}

    channel = MemberChannel(url, cluster, node, {"say": answer})
    await channel.open()
    yield channel
    await channel.close()


def test_one_node_or_all_of_them_answer(tmp_path: Path) -> None:
    async def story() -> None:
        server = NatsServer(tmp_path)
        url = await server.start()
        asking = MemberChannel(url, "c")
        async with member(url, "a") as a, member(url, "b"), member(url, "x", cluster="other"):
            await asking.open()
            assert await a.ask("b", "say", 20, text="1") == {"heard": "1", "node": "b"}
            answers = await asking.ask_all("say", 20, 2, text="2")
            assert sorted(each["node"] for each in answers) == ["a", "b"]
            with pytest.raises(TimeoutError):
                await asking.ask("nobody", "say", 0.05, text="3")
            assert await asking.ask_all("unknown", 0.05, 2) == []
        await asking.close()
        await server.stop()

    asyncio.run(story())
