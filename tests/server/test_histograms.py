"""Histograms: buckets, exemplars, percentiles."""

import pytest

from dragoman.server.histograms import SECONDS, Exemplar, Histogram, percentile


def test_an_observation_is_counted_in_its_bucket() -> None:
    histogram = Histogram((1.0, 2.0))
    for observed in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(observed)
    assert histogram.counts == [2, 1, 1]
    assert histogram.total == 12.0


def test_a_bucket_remembers_its_newest_job() -> None:
    histogram = Histogram((1.0,))
    histogram.observe(0.5, "a", 1.0)
    histogram.observe(0.7, "b", 2.0)
    assert histogram.exemplars == {0: Exemplar("b", 0.7, 2.0)}


@pytest.mark.parametrize(
    ("counts", "share", "found"),
    [([0, 0, 0], 0.5, 0.0), ([2, 2, 0], 0.5, 1.0), ([0, 4, 0], 0.5, 1.5), ([0, 0, 3], 0.99, 2.0)],
)
def test_a_percentile_lies_inside_its_bucket(counts: list[int], share: float, found: float) -> None:
    assert percentile(counts, share, (1.0, 2.0)) == found


def test_buckets_go_up() -> None:
    assert list(SECONDS) == sorted(SECONDS)
