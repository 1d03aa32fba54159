"""Files from the client's side, over every dialect that has clients."""

import asyncio
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, Client, JobFailed
from dragoman.sdk.files import SMALL_PIECE, AsyncFiles, Files, TransferFailed
from dragoman.testing.harness import LocalBroker

SIZE = 3_000_000
DIALECTS = ("nfp", "dcp", "zss", "memo")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "big").write_bytes(os.urandom(SIZE))
    (folder / "empty").write_bytes(b"")
    (folder / "drop").mkdir()
    return folder


@pytest.fixture(scope="module")
def broker(shared: Path) -> Iterator[LocalBroker]:
    files = {"roots": {"": str(shared), "drop": str(shared / "drop")}, "writable": ["drop"]}
    with LocalBroker(*DIALECTS, files=files) as running:
        yield running


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_file_comes_and_goes_whole_over(
    dialect: str, broker: LocalBroker, shared: Path, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    with Client(broker.url(dialect)) as client:
        files = Files(client)
        assert "nf://big" in files.walk()
        assert "big" in files.list()
        files.fetch("nf://big", tmp_path / "copy", lambda done, size: seen.append((done, size)))
        files.fetch("nf://empty", tmp_path / "none")
        files.put(tmp_path / "copy", f"nf://drop/{dialect}/back")
        assert files.details(f"nf://drop/{dialect}/back")["size_bytes"] == SIZE
    content = (shared / "big").read_bytes()
    assert (tmp_path / "copy").read_bytes() == content
    assert (tmp_path / "none").read_bytes() == b""
    assert (shared / "drop" / dialect / "back").read_bytes() == content
    assert seen[-1] == (SIZE, SIZE)
    assert sorted(os.listdir(tmp_path)) == ["copy", "none"]


def test_a_file_that_grows_during_the_upload_is_kept(broker: LocalBroker, shared: Path) -> None:
    source = shared / "growing"
    source.write_bytes(b"a" * (SMALL_PIECE + 1))

    def grow(_have: int, _size: int) -> None:
        with source.open("ab") as file:
            file.write(b"b")

    with Client(broker.url("nfp")) as client:
        files = Files(client)
        files.put(source, "nf://drop/grown", grow)
        assert files.details("nf://drop/grown")["size_bytes"] == SMALL_PIECE + 1
    assert source.stat().st_size == SMALL_PIECE + 3


def test_a_file_that_shrinks_during_the_upload_is_an_error(
    broker: LocalBroker, shared: Path
) -> None:
    source = shared / "shrinking"
    source.write_bytes(b"a" * (SMALL_PIECE + 1))
    with Client(broker.url("nfp")) as client, pytest.raises(TransferFailed, match="became shorter"):
        Files(client).put(source, "nf://drop/shrunk", lambda *_: os.truncate(source, 1))
    assert source.exists()


def test_an_empty_file_can_be_put(broker: LocalBroker, shared: Path) -> None:
    with Client(broker.url("nfp")) as client:
        Files(client).put(shared / "empty", "nf://drop/empty")
    assert (shared / "drop" / "empty").read_bytes() == b""


def test_an_interrupted_fetch_resumes(broker: LocalBroker, shared: Path, tmp_path: Path) -> None:
    content = (shared / "big").read_bytes()
    asked: list[int] = []

    class Counting(AsyncFiles):
        def _submit(self, url: str, offset: int, length: int) -> Any:
            asked.append(offset)
            return super()._submit(url, offset, length)

    def give_up(done: int, size: int) -> None:
        if done > 1_000_000:
            raise ConnectionError("cut")

    async def play() -> None:
        async with AsyncClient(broker.url("nfp")) as client:
            files = Counting(client, window=400_000, piece=100_000)
            with pytest.raises(ConnectionError):
                await files.fetch("nf://big", tmp_path / "copy", give_up)
            assert not (tmp_path / "copy").exists()
            asked.clear()
            await files.fetch("nf://big", tmp_path / "copy")

    asyncio.run(play())
    assert min(asked) == 1_200_000
    assert (tmp_path / "copy").read_bytes() == content


def test_a_lost_chunk_costs_one_window(broker: LocalBroker, shared: Path, tmp_path: Path) -> None:
    async def play() -> None:
        async with AsyncClient(broker.url("nfp")) as client:
            deliver, lost = client._deliver, 0

            def lossy(notice: Any) -> None:
                nonlocal lost
                if type(notice).__name__ == "Chunk" and lost < 2:
                    lost += 1
                    return
                deliver(notice)

            client._deliver = lossy  # type: ignore[method-assign]
            files = AsyncFiles(client, window=1_000_000, piece=250_000)
            await files.fetch("nf://big", tmp_path / "copy")
            assert lost == 2

    asyncio.run(play())
    assert (tmp_path / "copy").read_bytes() == (shared / "big").read_bytes()


def test_a_wrong_part_file_is_not_used(broker: LocalBroker, shared: Path, tmp_path: Path) -> None:
    sha256 = hashlib.sha256((shared / "big").read_bytes()).hexdigest()
    part = tmp_path / f".copy.{sha256[:16]}.part"
    with Client(broker.url("nfp")) as client:
        part.write_bytes(b"something else")
        with pytest.raises(TransferFailed, match="does not match"):
            Files(client).fetch("nf://big", tmp_path / "copy")
        part.write_bytes(b"x" * (SIZE + 1))
        Files(client).fetch("nf://big", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (shared / "big").read_bytes()


@pytest.mark.process
def test_a_missing_or_forbidden_file_is_an_error_with_its_reason(
    broker: LocalBroker, shared: Path, tmp_path: Path
) -> None:
    with Client(broker.url("nfp")) as client:
        with pytest.raises(JobFailed, match="not found"):
            Files(client).fetch("nf://nothing", tmp_path / "copy")
        with pytest.raises(JobFailed, match="not writable"):
            Files(client).put(shared / "big", "nf://elsewhere")


@pytest.mark.scale
def test_64_mib_pass_with_little_in_memory(tmp_path: Path) -> None:
    """The client's windows and the broker's pieces bound the memory, not the file's size."""
    import tracemalloc

    with (tmp_path / "big").open("wb") as file:
        for _ in range(64):
            file.write(os.urandom(1 << 20))
    files = {"roots": {"": str(tmp_path)}}
    with LocalBroker(files=files) as broker, Client(broker.url("nfp")) as client:
        Files(client).details("nf://big")
        tracemalloc.start()
        Files(client).fetch("nf://big", tmp_path / "copy")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    digests = [hashlib.sha256((tmp_path / n).read_bytes()).hexdigest() for n in ("big", "copy")]
    assert digests[0] == digests[1]
    # Broker and client together, in one process here.
    assert peak < 56 * 1024 * 1024
