"""Files that tasks are called with are here before the task runs."""

import os
from pathlib import Path

import pytest

from dragoman import Client, JobFailed, Worker
from dragoman.model.content import Call
from dragoman.sdk.file_arguments import Fetcher, FetchFailed, default_cache, files_url
from dragoman.sdk.url import Endpoint
from dragoman.testing.harness import LocalBroker


@pytest.mark.process
def test_a_task_gets_paths_of_checked_copies_which_are_kept(tmp_path: Path) -> None:
    shared, cache = tmp_path / "shared", tmp_path / "cache"
    shared.mkdir()
    (shared / "a.txt").write_text("content")
    with LocalBroker("nfp", "zss", files={"roots": {"": str(shared)}}) as broker:
        worker = Worker(
            broker.url("nfp"), service="s", name="w", own_process_beats=False, files_cache=cache
        )

        @worker.task
        def read(path: str, more: list[str]) -> list[str]:
            return [path, Path(path).read_text(), *(Path(each).name for each in more)]

        with worker, Client(broker.url("zss")) as client:
            url = "nf://a.txt"
            path, content, name = client.call("s", "read", path=url, more=[url], timeout=20)
            assert (content, name) == ("content", "a.txt")
            assert Path(path).is_relative_to(cache)
            before = os.stat(path).st_ino
            assert client.call("s", "read", path=url, more=[], timeout=20)[0] == path
            assert os.stat(path).st_ino == before
            (shared / "a.txt").write_text("changed")
            assert client.call("s", "read", path=url, more=[], timeout=20)[1] == "changed"
            with pytest.raises(JobFailed, match=r"nf://none: .*not found"):
                client.call("s", "read", path="nf://none", more=[], timeout=20)


def test_calls_without_files_are_left_alone_and_need_no_broker() -> None:
    call = Call("t", (1, "x", ["y"]), {"a": {"b": "c"}})
    assert Fetcher("", "w").resolved(call) is call


def test_a_worker_without_a_broker_of_clients_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match="files_url"):
        Fetcher("", "w", tmp_path).resolved(Call("t", ({"deep": ["nf://x"]},)))


def test_where_files_are_asked_for() -> None:
    assert files_url(Endpoint("nfp", "tcp://h:5555")) == "nfp://h:5555"
    assert files_url(Endpoint("zss", "tcp://h:7776")) == "zss://h:7777"
    assert files_url(Endpoint("zss", "tcp://h:9000")) == ""
    assert files_url(Endpoint("zss", "tcp://a:7776,b:7776")) == "zss://a:7777,b:7777"
    assert files_url(Endpoint("zss", "tcp://a:7776,b:9000")) == ""
    assert files_url(Endpoint("ncl", "tcp://h:4222")) == ""


def test_copies_are_kept_in_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "dragoman" / "files"
