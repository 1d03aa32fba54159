"""The file service: its tasks, NorFab's pacing, windows, and bounds."""

import asyncio
import hashlib
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.content import Call
from dragoman.services.base import ServiceFault, ServiceSession
from dragoman.services.file_store import FileStore
from dragoman.services.fss import LARGEST_PIECE, LARGEST_WINDOW, FileService

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def service(tmp_path: Path) -> Iterator[FileService]:
    (tmp_path / "f").write_bytes(CONTENT)
    (tmp_path / "empty").write_bytes(b"")
    service = FileService(FileStore({"": tmp_path}, frozenset({""}), 100_000))
    yield service
    service.close()


class Played:
    """One call, what was streamed, and what came of it."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.session: ServiceSession | None = None

    def ask(self, service: FileService, task: str, *inputs: Any, **kwargs: Any) -> Any:
        async def play() -> Any:
            self.session = ServiceSession("j", "nfp/c", lambda kind, data: self.pieces.append(data))
            for each in inputs:
                self.session.add_input(each)
            result = service.tasks(Call(task, (), kwargs), self.session)
            assert isinstance(result, Awaitable)
            return await result

        return asyncio.run(play())


def ask(service: FileService, task: str, **kwargs: Any) -> Any:
    return Played().ask(service, task, **kwargs)


def test_files_are_listed_walked_and_described(service: FileService) -> None:
    assert ask(service, "list_files", url="nf://") == ["empty", "f"]
    assert ask(service, "walk", url="nf://") == ["nf://empty", "nf://f"]
    assert ask(service, "file_details", url="nf://f")["size_bytes"] == len(CONTENT)
    with pytest.raises(ServiceFault, match="not found"):
        ask(service, "file_details", url="nf://none")


def test_roots_are_listed_with_what_may_be_done(tmp_path: Path) -> None:
    service = FileService(FileStore({"": tmp_path, "drop": tmp_path}, frozenset({"drop"})))
    found = service.tasks(
        Call("list_roots", (), {}), ServiceSession("j", "nfp/c", lambda k, d: None)
    )
    service.close()
    assert found == [
        {"url": "nf://", "is_writable": False},
        {"url": "nf://drop", "is_writable": True},
    ]


def test_details_of_a_list_are_a_result_object_for_each(service: FileService) -> None:
    found = ask(service, "file_details", url=["nf://f", "nf://none", 7])
    assert found["nf://f"]["failed"] is False
    assert found["nf://f"]["result"]["md5hash"] == hashlib.md5(CONTENT).hexdigest()
    assert found["nf://none"]["failed"] is True
    assert found["nf://none"]["result"]["exists"] is False
    assert found["7"]["errors"]


def test_norfabs_client_gets_a_piece_for_each_offset(service: FileService) -> None:
    played = Played()
    offsets = [{"offset": n} for n in range(3000, len(CONTENT), 3000)]
    assert played.ask(service, "fetch_file", *offsets, url="nf://f", chunk_size=3000) is True
    assert b"".join(played.pieces) == CONTENT
    assert [len(p) for p in played.pieces] == [3000, 3000, 3000, 1240]


def test_a_client_that_sends_no_offset_times_out(service: FileService) -> None:
    with pytest.raises(ServiceFault, match="no offset"):
        ask(service, "fetch_file", url="nf://f", chunk_size=10, chunk_timeout=0)


def test_an_empty_file_is_over_at_once(service: FileService) -> None:
    played = Played()
    assert played.ask(service, "fetch_file", url="nf://empty") is True
    assert played.pieces == []


def test_a_window_is_streamed_and_ends_with_its_digest(service: FileService) -> None:
    played = Played()
    found = played.ask(
        service, "fetch_file", url="nf://f", offset=1000, length=2500, chunk_size=1000
    )
    assert [len(p) for p in played.pieces] == [1000, 1000, 500]
    digest = hashlib.sha256(CONTENT[1000:3500]).hexdigest()
    assert found == {"offset": 1000, "size": 2500, "sha256": digest}


def test_a_window_beyond_the_end_is_short(service: FileService) -> None:
    found = ask(service, "fetch_file", url="nf://f", offset=len(CONTENT) - 5, length=100)
    assert found["size"] == 5


def test_read_file_returns_a_piece_without_a_stream(service: FileService) -> None:
    assert ask(service, "read_file", url="nf://f", offset=5, length=7) == CONTENT[5:12]
    assert ask(service, "read_file", url="nf://f", offset=1 << 40) == b""


@pytest.mark.parametrize(
    ("task", "kwargs", "words"),
    [
        ("fetch_file", {"chunk_size": 0}, "chunk_size"),
        ("fetch_file", {"chunk_size": LARGEST_PIECE + 1}, "chunk_size"),
        ("fetch_file", {"chunk_size": "big"}, "chunk_size"),
        ("fetch_file", {"offset": -1}, "offset"),
        ("fetch_file", {"offset": True}, "offset"),
        ("fetch_file", {"length": LARGEST_WINDOW + 1}, "length"),
        ("read_file", {"length": LARGEST_PIECE + 1}, "length"),
        ("read_file", {"offset": 1.5}, "offset"),
        ("put_file", {"offset": 0, "data": "text", "size": 1, "sha256": "0" * 64}, "data"),
        ("put_file", {"offset": 0, "data": b"", "size": 1, "sha256": "../x"}, "sha256"),
        ("put_file", {"offset": 0, "data": b"", "size": "1", "sha256": "0" * 64}, "size"),
        ("put_status", {"size": 1, "sha256": "/" * 64}, "sha256"),
    ],
)
def test_arguments_out_of_bounds_are_refused(
    service: FileService, task: str, kwargs: dict[str, Any], words: str
) -> None:
    with pytest.raises(ServiceFault, match=words):
        ask(service, task, url="nf://f", **kwargs)


def test_a_file_is_put_in_pieces(service: FileService, tmp_path: Path) -> None:
    data = b"x" * 5000
    about = {"size": 5000, "sha256": hashlib.sha256(data).hexdigest()}
    put = {"url": "nf://n", **about}
    assert ask(service, "put_file", offset=0, data=data[:3000], **put)["have"] == 3000
    assert ask(service, "put_status", **put) == {"have": 3000, "is_done": False}
    assert ask(service, "put_file", offset=3000, data=data[3000:], **put)["is_done"]
    assert (tmp_path / "n").read_bytes() == data
    assert ask(service, "remove_file", url="nf://n") == {"removed": "nf://n"}
    with pytest.raises(ServiceFault, match="file not found"):
        ask(service, "remove_file", url="nf://n")


def test_an_invalid_offset_ends_the_fetch(service: FileService) -> None:
    with pytest.raises(ServiceFault, match="offset"):
        Played().ask(service, "fetch_file", "more", url="nf://f", chunk_size=10)
