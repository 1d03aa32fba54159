"""The memory limit of a job."""

import resource

import pytest

from dragoman.sdk.memory_limit import data_in_use, limited_memory


def test_what_exceeds_the_limit_is_refused_and_the_limit_ends_with_the_job() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited_memory(64 << 20):
        assert len(bytearray(16 << 20)) == 16 << 20
        with pytest.raises(MemoryError):
            bytearray(256 << 20)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert len(bytearray(256 << 20)) == 256 << 20


def test_without_a_limit_nothing_changes() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited_memory(None):
        assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_memory_in_use_grows_with_what_is_allocated() -> None:
    before = data_in_use()
    kept = bytearray(64 << 20)
    assert data_in_use() - before > 32 << 20
    del kept
