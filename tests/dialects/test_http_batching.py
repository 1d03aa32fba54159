"""Items that travel together: the load sets the size of a batch."""

from dragoman.dialects.http.batching import MOST_BYTES, MOST_ITEMS, Batching, json_list


def keys(batch: tuple[int, list[tuple[str, bytes]]] | None) -> list[str]:
    return [key for key, _ in batch[1]] if batch else []


def test_a_single_item_goes_at_once_and_what_comes_meanwhile_goes_together() -> None:
    batching = Batching()
    batching.add("a", b"1")
    assert keys(batching.start()) == ["a"]
    for key in "bcb":
        batching.add(key, b"2")
    assert batching.start() is None
    assert batching.end(1) == [("a", b"1")]
    assert keys(batching.start()) == ["b", "c"]


def test_a_key_is_known_until_its_batch_has_ended() -> None:
    batching = Batching()
    batching.add("a", b"1")
    batching.start()
    batching.add("a", b"1")
    assert batching.start_another() is None
    batching.end(1)
    batching.add("a", b"2")
    assert keys(batching.start()) == ["a"]


def test_a_batch_is_bounded_in_items_and_in_bytes() -> None:
    batching = Batching()
    for number in range(MOST_ITEMS + 1):
        batching.add(str(number), b"1")
    assert len(keys(batching.start())) == MOST_ITEMS
    half = bytes(MOST_BYTES // 2)
    for key in ("first", "second", "third"):
        batching.add(key, half)
    batching.end(1)
    assert keys(batching.start()) == [str(MOST_ITEMS), "first"]
    batching.add("large", bytes(MOST_BYTES + 1))
    batching.end(2)
    assert keys(batching.start()) == ["second", "third"]
    batching.end(3)
    assert keys(batching.start()) == ["large"]


def test_items_that_are_put_back_come_first() -> None:
    batching = Batching()
    for key in "ab":
        batching.add(key, b"1")
    batching.start()
    batching.add("c", b"1")
    batching.put_back(1)
    assert keys(batching.start()) == ["a", "b", "c"]
    assert batching.end(1) == []


def test_encoded_items_are_one_json_list() -> None:
    assert json_list("jobs", [("a", b"1"), ("b", b"{}")]) == b'{"jobs":[1,{}]}'
