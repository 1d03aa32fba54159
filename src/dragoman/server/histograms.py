"""Histograms of durations and sizes, with exemplars. Pure: no clock."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from dragoman.model.value import value

#: Upper bounds of buckets, in seconds: from a memory call to half an hour.
SECONDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
)
#: Upper bounds of buckets, in records.
RECORDS: Final = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 5000.0, 20000.0)


@value
class Exemplar:
    """One observation of a bucket, by the job that it was of."""

    job: str
    observed: float
    at: float


class Histogram:
    """Counts of observations by bucket; the last bucket has no upper bound."""

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        #: The newest exemplar of each bucket.
        self.exemplars: dict[int, Exemplar] = {}

    def observe(self, observed: float, job: str = "", at: float = 0.0) -> int:
        """Count an observation; return its bucket."""
        bucket = bisect_left(self.bounds, observed)
        self.counts[bucket] += 1
        self.total += observed
        if job:
            self.exemplars[bucket] = Exemplar(job, observed, at)
        return bucket


def percentile(counts: Sequence[int], share: float, bounds: Sequence[float] = SECONDS) -> float:
    """Return a percentile, interpolated inside its bucket; 0 without observations."""
    rank, seen, low = share * sum(counts), 0, 0.0
    for count, high in zip(counts, (*bounds, bounds[-1]), strict=True):
        if count and seen + count >= rank:
            return low + (high - low) * (rank - seen) / count
        seen, low = seen + count, high
    return low if any(counts) else 0.0
