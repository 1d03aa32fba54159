"""DagBox's services as examples: what the originals answered, and answers where they abort."""

import json
from pathlib import Path
from typing import Any

import msgpack
import pytest
from examples.dagbox import lock, reader, writer
from examples.dagbox.tour import tour

from dragoman.testing.harness import LocalBroker

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "dcp" / "vectors.json").read_text()
)


def data_of(label: str) -> list[bytes]:
    """Return the data parts of a captured message: all after the second empty one."""
    frames = next(v["frames_hex"] for v in VECTORS if v["label"] == label)
    parts = [bytes.fromhex(frame) for frame in frames]
    second = parts.index(b"", parts.index(b"", 3) + 1)
    return parts[second + 1 :]


def pack(value: object) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


def unpack(parts: list[bytes]) -> list[Any]:
    return [msgpack.unpackb(part) for part in parts]


def test_the_lock_answers_as_the_original_did() -> None:
    locks = lock.Locks()
    for words in ("lock k1 (free)", "unlock k1", "unlock k1 (not held)"):
        asked = data_of(f"lock service request: {words}")
        assert locks.answer(*asked) == data_of(f"lock service reply: {words}")
    asked = data_of("lock service: three requests in one message")
    assert locks.answer(*asked) == data_of("lock service: three answers in one message")


@pytest.mark.parametrize(
    "part", [b"\xc1", b"", pack(5), pack({}), pack({"key": 1, "lock": True}), pack({"key": "k"})]
)
def test_the_lock_answers_what_the_original_aborts_on(part: bytes) -> None:
    good = pack({"key": "k", "lock": True})
    wrong, right = unpack(lock.Locks().answer(part, good))
    assert wrong["error"]
    assert right is True


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = writer.Writer(tmp_path / "new")
    values = ["plain", "größe", "ab\0cd", ""]
    keys = unpack(store.answer(*(pack({"bucket": "users", "data": v}) for v in values)))
    assert len(set(keys)) == 4
    assert all(len(key) == 36 for key in keys)
    asked = [pack({"bucket": "users", "key": key}) for key in keys]
    found = unpack(reader.Reader(tmp_path / "new").answer(*asked))
    assert [f["data"] for f in found] == values
    assert list(found[0]) == ["bucket", "key", "data"]


def test_a_relation_is_read_as_the_original_did(tmp_path: Path) -> None:
    (asked,) = data_of("datastore read request with a relation")
    (answered,) = data_of("datastore read reply with a relation")
    expected = msgpack.unpackb(answered)
    inner = expected["relations"]["comment"]
    keys = iter([expected["key"], inner["key"]])
    store = writer.Writer(tmp_path, lambda: next(keys))
    for said in (expected, inner):
        store.answer(pack({"bucket": said["bucket"], "data": said["data"]}))
    (found,) = reader.Reader(tmp_path).answer(asked)
    assert _without_empty(msgpack.unpackb(found)) == _without_empty(expected)


def _without_empty(said: dict[str, Any]) -> dict[str, Any]:
    """Leave out relations that hold nothing: the original writes them, nobody asked for them."""
    kept = {k: v for k, v in said.items() if k != "relations" or v}
    if "relations" in kept:
        kept["relations"] = {n: _without_empty(r) for n, r in kept["relations"].items()}
    return kept


def test_relations_may_be_lists(tmp_path: Path) -> None:
    store = writer.Writer(tmp_path)
    (key,) = unpack(store.answer(pack({"bucket": "b", "data": "d"})))
    same = {"bucket": "b", "key": key}
    (found,) = unpack(
        reader.Reader(tmp_path).answer(pack({**same, "relations": {"two": [same, same]}}))
    )
    assert [r["data"] for r in found["relations"]["two"]] == ["d", "d"]


def test_a_message_with_a_wrong_part_is_not_written_at_all(tmp_path: Path) -> None:
    store = writer.Writer(tmp_path, lambda: "k1")
    answers = unpack(store.answer(pack({"bucket": "b", "data": "d"}), pack({"bucket": "b"})))
    assert ["error" in answer for answer in answers] == [True, True]
    (found,) = unpack(reader.Reader(tmp_path).answer(pack({"bucket": "b", "key": "k1"})))
    assert found["error"] == "there is no such key in that bucket"


@pytest.mark.parametrize(
    "said",
    [
        {"bucket": "b"},
        {"bucket": "b", "key": "k", "relations": 5},
        {"bucket": "b", "key": "k", "relations": {"r": {"bucket": "b"}}},
        {"bucket": "b", "key": "k", "relations": {"r": [5]}},
    ],
)
def test_the_reader_answers_what_it_cannot_read(tmp_path: Path, said: dict[str, Any]) -> None:
    (found,) = unpack(reader.Reader(tmp_path).answer(pack(said)))
    assert list(found) == ["error"]


def test_relations_have_a_bottom(tmp_path: Path) -> None:
    said: dict[str, Any] = {"bucket": "b", "key": "k"}
    for _ in range(reader.MAX_DEPTH + 1):
        said = {"bucket": "b", "key": "k", "relations": {"r": said}}
    (found,) = unpack(reader.Reader(tmp_path).answer(pack(said)))
    assert "deeper" in found["error"]


@pytest.mark.process
def test_the_tour_goes_through_all_three(tmp_path: Path) -> None:
    with LocalBroker("dcp") as broker:
        url = broker.url("dcp")
        workers = [lock.worker(url), writer.worker(url, tmp_path), reader.worker(url, tmp_path)]
        for worker in workers:
            worker.start()
        try:
            steps = dict(tour(url))
        finally:
            for worker in workers:
                worker.stop()
    assert (steps["locked"], steps["again"], steps["unlocked"]) == (True, False, True)
    assert steps["read"]["data"] == "Anna"
    assert steps["read"]["relations"]["note"]["data"] == "likes maps"
    assert "error" in steps["missing"]
