"""A nats-server whose disk was full stores again, without anybody's help."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client
from tests.canary_watch import Canary
from tests.transports.nats_members import STREAM, nats_trio

pytestmark = pytest.mark.interop


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(folder)]
    mounting = subprocess.run(words, capture_output=True, check=False)
    if mounting.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mounting.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    """Take all space that is left."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


async def complete_copies(client: Client) -> int:
    """Return how many servers have the whole stream."""
    info = await client.jetstream(timeout=5).stream_info(STREAM)
    replicas = info.cluster.replicas if info.cluster else None
    return 1 + sum(bool(each.current) and not each.offline for each in replicas or ())


async def publish(client: Client) -> None:
    with suppress(nats.errors.Error, TimeoutError):
        await client.jetstream(timeout=1).publish("s", bytes(10_000))


def test_a_server_whose_disk_was_full_stores_again(
    tmp_path: Path, small_disk: Path, canary: Canary
) -> None:
    folders = [small_disk / "0", tmp_path / "1", tmp_path / "2"]

    async def story() -> None:
        async with nats_trio(folders, canary("cluster token")) as (servers, client):
            fill(small_disk / "ballast")
            while not any("no space left" in line for line in servers[0].log_lines):
                await publish(client)
            assert servers[0].restarts == 0
            (small_disk / "ballast").unlink()
            await servers[0].restarted.wait()
            while await complete_copies(client) < len(servers):
                await publish(client)

    asyncio.run(story())
