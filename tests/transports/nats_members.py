"""Three supervised nats-servers as a cluster with one stream, `s`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import nats
import nats.errors
from nats.aio.client import Client
from nats.js.api import StreamConfig

from dragoman.testing.fabric import free_port
from dragoman.transports.nats_cluster import (
    LEDGER_USER,
    NatsCluster,
    RouteTls,
    ledger_password,
)
from dragoman.transports.nats_server import NatsServer

STREAM = "S"


@asynccontextmanager
async def nats_trio(
    folders: Sequence[Path], token: str, tls: RouteTls | None = None
) -> AsyncIterator[tuple[list[NatsServer], Client]]:
    """Start a server in each folder, and a client that all of them know."""
    places = [f"127.0.0.1:{free_port()}" for _ in folders]
    servers = [
        NatsServer(folder, cluster=NatsCluster("c", f"n{n}", own, _others(places, own), token, tls))
        for n, (folder, own) in enumerate(zip(folders, places, strict=True))
    ]
    async with AsyncExitStack() as stack:
        for server in servers:
            await server.start()
            stack.push_async_callback(server.stop)
        urls, password = [server.url for server in servers], ledger_password(token)
        client = await nats.connect(urls, user=LEDGER_USER, password=password)
        stack.push_async_callback(client.close)
        await _add_stream(client, len(folders))
        yield servers, client


def _others(places: Sequence[str], own: str) -> tuple[str, ...]:
    return tuple(place for place in places if place != own)


async def _add_stream(client: Client, copies: int) -> None:
    config = StreamConfig(name=STREAM, subjects=["s"], num_replicas=copies)
    async with asyncio.timeout(30):
        while True:
            try:
                await client.jetstream(timeout=5).add_stream(config)
                return
            except (nats.errors.Error, TimeoutError):
                # The servers have not found each other yet.
                await asyncio.sleep(0.1)
