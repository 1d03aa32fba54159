"""Small results in the reply, large ones as files, too large ones not at all."""

import os
import time
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dragoman import Client
from dragoman.sdk.errors import JobFailed, Unreachable
from dragoman.sdk.files import Files
from dragoman.spark.results import (
    FileServiceFolder,
    ResultFolder,
    SparkResultTooLarge,
    Sweeper,
    reply,
)
from dragoman.spark.retention import Retention
from dragoman.spark.settings import SparkLimits
from dragoman.testing.harness import LocalBroker

LIMITS = SparkLimits(reply_rows=3, reply_bytes=1_000, rows=100, bytes=100_000)


def numbers(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64())})


def test_a_small_result_is_in_the_reply_with_its_columns() -> None:
    table = pa.table({"n": [1, 2], "d": [date(2026, 1, 5), None], "b": [b"\xff", b""]})
    assert reply(table, LIMITS, None, "j") == {
        "columns": [
            {"name": "n", "type": "int64"},
            {"name": "d", "type": "date32[day]"},
            {"name": "b", "type": "binary"},
        ],
        "count": 2,
        "rows": [[1, "2026-01-05", b"\xff"], [2, None, b""]],
    }


def test_columns_may_share_a_name_and_there_may_be_no_rows() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"])
    assert reply(table, LIMITS, None, "j")["rows"] == [[1, 2]]
    assert reply(numbers(0), LIMITS, None, "j")["rows"] == []


def test_more_is_a_parquet_file_in_a_shared_folder(tmp_path: Path) -> None:
    answer = reply(numbers(4), LIMITS, ResultFolder(str(tmp_path / "out"), "nf://spark/"), "job-1")
    assert answer["file"] == "nf://spark/job-1.result.parquet"
    assert "rows" not in answer
    assert answer["count"] == 4
    assert pq.read_table(tmp_path / "out" / "job-1.result.parquet").equals(numbers(4))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["job-1.result.parquet"]


@pytest.mark.process
def test_more_is_put_through_the_file_service_and_can_be_fetched(tmp_path: Path) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    files = {"roots": {"drop": drop}, "writable": ["drop"]}
    with LocalBroker("nfp", files=files) as broker:
        store = FileServiceFolder(lambda: Client(broker.url("nfp")), "nf://drop")
        answer = reply(numbers(50), LIMITS, store, "job-2")
        with Client(broker.url("nfp")) as client:
            copy = Files(client).fetch(answer["file"], tmp_path / "copy.parquet")
            assert Files(client).details(answer["file"])["sha256"] == answer["sha256"]
        assert pq.read_table(copy).equals(numbers(50))
        assert copy.stat().st_size == answer["bytes"]
        nowhere = FileServiceFolder(lambda: Client(broker.url("nfp")), "nf://elsewhere")
        with pytest.raises(
            SparkResultTooLarge,
            match=r"cannot upload the result to nf://elsewhere/job-3.result.parquet",
        ):
            reply(numbers(50), LIMITS, nowhere, "job-3")


def age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_old_results_are_removed_from_a_folder_and_nothing_else_is(tmp_path: Path) -> None:
    store = ResultFolder(str(tmp_path), "nf://spark", Retention(seconds=3600))
    for name in ("old", "young"):
        assert "until" in reply(numbers(4), LIMITS, store, name)
    (tmp_path / "mine.parquet").write_bytes(b"somebody's own")
    for name in ("old.result.parquet", "mine.parquet"):
        age(tmp_path / name, 4000)
    reply(numbers(4), LIMITS, store, "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "mine.parquet",
        "new.result.parquet",
        "young.result.parquet",
    ]


def test_a_result_is_returned_though_an_old_file_cannot_be_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = ResultFolder(str(tmp_path), "nf://spark", Retention(seconds=3600))
    stuck = tmp_path / "stuck.result.parquet"
    stuck.mkdir()
    age(stuck, 4000)
    assert reply(numbers(4), LIMITS, store, "new")["file"] == "nf://spark/new.result.parquet"
    assert "cannot remove old result" in caplog.text


def test_results_are_removed_though_nobody_asks_for_more(tmp_path: Path) -> None:
    store = ResultFolder(str(tmp_path), "nf://spark", Retention(seconds=3600))
    reply(numbers(4), LIMITS, store, "old")
    age(tmp_path / "old.result.parquet", 4000)
    sweeper = Sweeper(store, every=600)
    deadline = time.monotonic() + 20
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    sweeper.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_results_in_the_file_service_go_oldest_first_and_are_said_to_be_gone(
    tmp_path: Path,
) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    (drop / "own.parquet").write_bytes(b"somebody's own")
    files = {"roots": {"drop": drop}, "writable": ["drop"]}
    with LocalBroker("nfp", files=files) as broker:

        def connect() -> Client:
            return Client(broker.url("nfp"))

        answer = reply(numbers(50), LIMITS, FileServiceFolder(connect, "nf://drop"), "first")
        age(drop / "first.result.parquet", 10)
        # A worker that was started anew knows nothing of what the last one put there.
        store = FileServiceFolder(connect, "nf://drop", Retention(bytes=answer["bytes"] + 10))
        reply(numbers(50), LIMITS, store, "second")
        assert sorted(each.name for each in drop.iterdir()) == [
            "own.parquet",
            "second.result.parquet",
        ]
        with Client(broker.url("nfp")) as client, pytest.raises(JobFailed, match="file not found"):
            Files(client).fetch(answer["file"], tmp_path / "copy.parquet")
        timed = FileServiceFolder(connect, "nf://drop", Retention(seconds=60))
        assert timed.sweep(time.time()) == []
        assert timed.sweep(time.time() + 61) == ["second.result.parquet"]


@pytest.mark.process
def test_an_uploaded_result_is_returned_though_old_ones_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    files = {"roots": {"drop": drop}, "writable": ["drop"]}
    with LocalBroker("nfp", files=files) as broker:
        store = FileServiceFolder(
            lambda: Client(broker.url("nfp")), "nf://drop", Retention(bytes=1)
        )
        reply(numbers(50), LIMITS, store, "first")

        def denied(files: Files, url: str) -> None:
            raise Unreachable("not allowed")

        monkeypatch.setattr(Files, "remove", denied)
        assert reply(numbers(50), LIMITS, store, "second")["count"] == 50
    assert len(list(drop.iterdir())) == 2
    assert "cannot remove old results at nf://drop: not allowed" in caplog.text


def test_a_broker_that_is_away_has_time_to_remove_results() -> None:
    def nobody() -> Client:
        raise Unreachable("no answer")

    assert FileServiceFolder(nobody, "nf://drop", Retention(seconds=1)).sweep(time.time()) == []


def test_without_a_place_more_is_refused_with_advice() -> None:
    with pytest.raises(
        SparkResultTooLarge, match=r"4 rows .* add a LIMIT, or start it with --results"
    ):
        reply(numbers(4), LIMITS, None, "j")


@pytest.mark.parametrize("count", [101, 20_000])
def test_too_much_is_refused_wherever_it_could_go(tmp_path: Path, count: int) -> None:
    with pytest.raises(SparkResultTooLarge, match="more than 100 rows or 100,000 bytes"):
        reply(numbers(count), LIMITS, ResultFolder(str(tmp_path), "nf://x"), "j")
    assert not list(tmp_path.iterdir())
