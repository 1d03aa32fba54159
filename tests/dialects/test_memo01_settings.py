"""The defaults are upstream's numbers, as measured."""

from dragoman.dialects.memo01.settings import LONGEST_TIMEOUT_MS, MemoSettings


def test_the_defaults_are_upstreams() -> None:
    settings = MemoSettings()
    assert (settings.beat_every, settings.beat_answer, settings.queue_timeout) == (10, 10, 10)


def test_the_text_promises_no_persistence_so_jobs_are_relaxed() -> None:
    assert not MemoSettings().strict


def test_the_longest_timeout_is_the_largest_that_upstream_can_read() -> None:
    assert LONGEST_TIMEOUT_MS.bit_length() == 31
