"""Copies are kept within a bound; what was used longest ago goes first."""

import os
import time
from pathlib import Path

from dragoman.sdk.cache import FileCache


def put(cache: FileCache, digest: str, size: int, age: float) -> Path:
    copy = cache.place(digest, "file")
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"x" * size)
    then = time.time() - age
    os.utime(copy.parent, (then, then))
    return copy


def test_the_oldest_go_until_the_rest_fits(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, largest=250, in_use=10.0)
    ages = {"a": 99.0, "b": 50.0, "c": 20.0}
    oldest, older, new = (put(cache, d * 64, 100, age) for d, age in ages.items())
    cache.trim(keep=new)
    assert [oldest.exists(), older.exists(), new.exists()] == [False, True, True]


def test_what_was_used_just_now_stays_however_full_it_is(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, largest=10, in_use=60.0)
    copies = [put(cache, d * 64, 100, 5.0) for d in "abc"]
    cache.trim(keep=copies[0])
    assert all(copy.exists() for copy in copies)


def test_asking_for_a_copy_is_using_it(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, largest=150, in_use=10.0)
    asked, other = put(cache, "a" * 64, 100, 99), put(cache, "b" * 64, 100, 50)
    assert cache.has(asked)
    assert not cache.has(cache.place("c" * 64, "file"))
    cache.trim(keep=other)
    assert asked.exists()


def test_the_copy_that_was_just_made_stays_even_if_it_is_too_large(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, largest=10, in_use=0.0)
    large = put(cache, "a" * 64, 1000, 99)
    put(cache, "b" * 64, 1000, 50)
    cache.trim(keep=large)
    assert [entry.name for entry in tmp_path.glob("??/*")] == ["a" * 64]
