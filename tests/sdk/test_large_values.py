"""Large values as references: their form, and jobs that carry them, over every dialect."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Client, LargeValues, ValueLost, Worker
from dragoman.dialects.registry import DIALECTS
from dragoman.model.content import Call
from dragoman.sdk.errors import DragomanError
from dragoman.sdk.files import AsyncFiles, Files
from dragoman.sdk.large_values import (
    is_reference,
    load,
    packed,
    read_reference,
    store_arguments,
    unpacked,
)
from dragoman.testing.harness import LocalBroker

VALUES = LargeValues("nf://drop/values", above=1000)
CLIENTS = ("nfp", "dcp", "zss", "memo", "http")
WORKERS = ("nfp", "dcp", "zss", "memo", "ncl", "http")
LINKS = ("nfp", "dcp", "zss", "zss_backend", "memo", "http", "nats")
DOCUMENT = {"rows": [[n, "row", b"\0\xff"] for n in range(500)]}

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


# --- the form ---------------------------------------------------------------------------------


@given(plain)
def test_a_value_comes_back_from_its_file(found: Any) -> None:
    stored, data = packed(found, "nf://drop/")
    assert read_reference(stored.members()) == stored
    assert stored.url == f"nf://drop/{stored.name}"
    assert unpacked(stored, data) == found


@pytest.mark.parametrize(
    "found",
    [
        {"$value": "nf://drop/x", "form": "bytes", "bytes": 1},
        {"$value": f"http://drop/{'0' * 64}", "form": "bytes", "bytes": 1},
        {"$value": f"nf://drop/{'0' * 64}", "form": "pickle", "bytes": 1},
        {"$value": f"nf://drop/{'0' * 64}", "form": "bytes", "bytes": "1"},
        {"$value": f"nf://drop/{'0' * 64}", "form": "bytes", "bytes": 1, "more": 1},
        {"$value": 1, "form": "bytes", "bytes": 1},
        {},
        "nf://drop/x",
        None,
    ],
)
def test_other_values_are_no_references(found: Any) -> None:
    assert read_reference(found) is None
    assert not is_reference(found)


@pytest.mark.parametrize("data", [b"", b"other", b"right, but longer"])
def test_another_file_is_not_the_value(data: bytes) -> None:
    stored, _ = packed(b"right", "nf://drop")
    with pytest.raises(ValueLost, match="is not the value that was stored"):
        unpacked(stored, data)


def test_a_file_that_is_no_message_pack_is_named() -> None:
    stored, _ = packed(b"\xc1", "nf://drop")
    wrong = type(stored)(stored.url, "msgpack", stored.size)
    with pytest.raises(ValueLost, match="holds no value"):
        unpacked(wrong, b"\xc1")


def test_only_values_above_the_bound_are_large() -> None:
    large = [b"x" * 1001, "x" * 1001, ["x" * 1001], {"x": [0] * 1001}]
    small: list[Any] = [None, True, 7, 1.5, b"x" * 1000, "x" * 1000, [0] * 900, {}]
    assert all(map(VALUES.is_large, large))
    assert not any(map(VALUES.is_large, small))
    # What MessagePack cannot hold goes the usual way, which says what is wrong with it.
    assert not VALUES.is_large([2**70, "x" * 1001])
    assert not VALUES.is_large([object(), "x" * 1001])


def test_a_folder_is_a_url_of_the_file_service() -> None:
    with pytest.raises(ValueError, match="'/tmp' is no folder for values; it begins with nf://"):
        LargeValues("/tmp")


def test_only_large_arguments_are_replaced() -> None:
    put: dict[str, bytes] = {}

    async def upload(data: bytes, url: str) -> None:
        put[url] = data

    async def story() -> None:
        call = Call("t", (1, b"x" * 2000), {"a": "small", "b": "y" * 2000}, timeout=3.0)
        stored = await store_arguments(call, VALUES, upload)
        assert stored.args[0] == 1
        assert stored.kwargs["a"] == "small"
        assert stored.timeout == 3.0
        assert len(put) == 2

        async def download(url: str, most: int) -> bytes:
            return put[url][:most]

        assert await load(stored.args[1], download) == b"x" * 2000
        assert await load(stored.kwargs["b"], download) == "y" * 2000
        assert await load({"a": 1}, download) == {"a": 1}

    asyncio.run(story())


def test_a_value_that_cannot_be_read_says_how_long_values_are_kept() -> None:
    async def download(url: str, most: int) -> bytes:
        raise DragomanError("file not found")

    stored, _ = packed(b"x", "nf://drop")
    with pytest.raises(ValueLost, match=r"file not found; .* files\.keep_days"):
        asyncio.run(load(stored.members(), download))


def test_a_value_above_the_bound_is_not_loaded() -> None:
    stored, data = packed(b"x" * 101, "nf://drop")

    async def download(url: str, most: int) -> bytes:
        assert most == 101
        return data

    assert asyncio.run(load(stored.members(), download, 101)) == b"x" * 101
    words = r"has 101 bytes, and this program loads at most 100: set LargeValues\(\.\.\., largest="
    with pytest.raises(ValueLost, match=words):
        asyncio.run(load(stored.members(), download, 100))


def test_the_default_bound_is_a_gibibyte() -> None:
    url = f"nf://drop/{'0' * 64}"

    async def download(url: str, most: int) -> bytes:
        raise DragomanError("not reached")

    for size, words in ((1 << 30, "not reached"), ((1 << 30) + 1, "loads at most 1,073,741,824")):
        with pytest.raises(ValueLost, match=words):
            asyncio.run(load({"$value": url, "form": "bytes", "bytes": size}, download))


def test_a_bound_is_at_least_a_byte() -> None:
    with pytest.raises(ValueError, match="largest is 0; it is a number of bytes from 1"):
        LargeValues("nf://drop", largest=0)


# --- jobs -------------------------------------------------------------------------------------


def length(data: Any) -> int:
    return len(data["rows"]) if isinstance(data, dict) else len(data)


def make(kind: str) -> Any:
    return {"bytes": b"\xff" * 5000, "document": DOCUMENT, "big": b"z" * 3_000_000}[kind]


@pytest.fixture(scope="module")
def drop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drop")


@pytest.fixture(scope="module")
def broker(drop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    files = {"roots": {"drop": str(drop)}, "writable": ["drop"]}
    cache = tmp_path_factory.mktemp("cache")
    with LocalBroker(*LINKS, files=files) as running, ExitStack() as workers:
        for dialect in WORKERS:
            worker = Worker(
                running.url(dialect, for_workers=True),
                f"large-{dialect}",
                files_url=running.url("nfp"),
                files_cache=cache,
                large_values=VALUES,
            )
            worker.task(length)
            worker.task(make)
            workers.enter_context(worker)
        yield running


def values_in(drop: Path) -> list[str]:
    folder = drop / "values"
    return sorted(os.listdir(folder)) if folder.exists() else []


@pytest.mark.parametrize("dialect", WORKERS)
def test_a_task_gets_the_value_and_its_large_result_comes_back(
    dialect: str, broker: LocalBroker, drop: Path
) -> None:
    service = f"large-{dialect}"
    with Client(broker.url("nfp"), large_values=VALUES) as client:
        patient = client.options(timeout=60)
        assert patient.call(service, "length", b"x" * 2000) == 2000
        assert patient.call(service, "length", data=DOCUMENT) == 500
        assert patient.call(service, "make", "bytes") == b"\xff" * 5000
        assert patient.call(service, "make", "document") == DOCUMENT
    assert len(values_in(drop)) == 3


@pytest.mark.parametrize("dialect", CLIENTS)
def test_clients_of_every_dialect_store_and_load(dialect: str, broker: LocalBroker) -> None:
    with Client(broker.url(dialect), large_values=VALUES) as client:
        patient = client.options(timeout=60)
        assert patient.call("large-nfp", "length", DOCUMENT) == 500
        assert patient.call("large-nfp", "make", "document") == DOCUMENT
        jobs = patient.submit_many("large-nfp", "length", [(b"y" * n,) for n in (10, 1500, 3000)])
        assert [job.result(60) for job in jobs] == [10, 1500, 3000]


def test_a_result_beyond_the_limit_of_its_dialect_comes_back(broker: LocalBroker) -> None:
    # NATS takes 1 MiB.
    with Client(broker.url("http")) as client:
        assert client.options(timeout=60).call("large-ncl", "make", "big") == b"z" * 3_000_000


def test_the_ledger_s_job_carries_only_the_reference(broker: LocalBroker) -> None:
    with Client(broker.url("nfp"), large_values=VALUES) as client:
        job = client.submit("large-nfp", "make", "bytes")
        assert job.result(60) == b"\xff" * 5000
        (answer,) = job.asynchronous._finished.result().answers
        assert answer.value["bytes"] == 5000
        # Another peer fetches the file by its URL.
        assert client.portal.wait(_read(client, answer.value["$value"])) == b"\xff" * 5000


async def _read(client: Client, url: str, most: int = 5000) -> bytes:
    return await AsyncFiles(client.asynchronous).read(url, most)


def test_a_file_is_read_only_up_to_a_bound(broker: LocalBroker) -> None:
    with Client(broker.url("nfp")) as client:
        Files(client).put_bytes(b"12345", "nf://drop/five")
        assert client.portal.wait(_read(client, "nf://drop/five", 5)) == b"12345"
        with pytest.raises(DragomanError, match="nf://drop/five has 5 bytes, and at most 4"):
            client.portal.wait(_read(client, "nf://drop/five", 4))


@pytest.mark.process
def test_programs_load_values_up_to_their_bound(broker: LocalBroker, tmp_path: Path) -> None:
    small = LargeValues("nf://drop/values", above=100, largest=4999)
    with Client(broker.url("nfp"), large_values=small) as client:
        patient = client.options(timeout=60)
        with pytest.raises(ValueLost, match="has 5,000 bytes, and this program loads at most"):
            patient.call("large-nfp", "make", "bytes")
        worker = Worker(broker.url("nfp"), "bounded", files_cache=tmp_path, large_values=small)
        worker.task(length)
        with worker, pytest.raises(DragomanError, match="has 5,000 bytes, and this program loads"):
            patient.call("bounded", "length", b"x" * 5000)


def test_a_worker_does_not_take_a_larger_file_for_the_value(broker: LocalBroker) -> None:
    with Client(broker.url("nfp")) as client:
        stored, data = packed(b"x" * 200, "nf://drop/values")
        Files(client).put_bytes(data, stored.url)
        shorter = {**stored.members(), "bytes": 199}
        with pytest.raises(DragomanError, match="is not the value that was stored"):
            client.options(timeout=60).call("large-nfp", "length", shorter)


def test_a_value_that_was_removed_fails_the_task_with_its_url(
    broker: LocalBroker, drop: Path
) -> None:
    with Client(broker.url("nfp")) as client:
        stored, data = packed(msgspec.msgpack.encode(["gone"]), "nf://drop/values")
        Files(client).put_bytes(data, stored.url)
        Files(client).remove(stored.url)
        with pytest.raises(DragomanError, match=f"{stored.url}.*file not found"):
            client.options(timeout=60).call("large-nfp", "length", stored.members())


def test_every_dialect_with_clients_or_workers_is_tried() -> None:
    assert {*CLIENTS, *WORKERS} == set(DIALECTS) - {"mdp"}
