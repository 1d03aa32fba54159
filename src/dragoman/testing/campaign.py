"""Runs many worlds on all cores until enough faults have been injected (`make sim`).

Worker processes import this module, so it must not be the main module.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from typing import Final

from dragoman.model.value import value
from dragoman.testing.cluster_simulation import simulate_cluster
from dragoman.testing.dialect_simulation import simulate_dialects
from dragoman.testing.disk_simulation import simulate_disk
from dragoman.testing.mesh_simulation import simulate_mesh
from dragoman.testing.outage_simulation import simulate_outages
from dragoman.testing.simulation import Outcome, simulate
from dragoman.testing.unnamed_simulation import simulate_unnamed

#: In a long run the whole state is checked after this many events.
SPARSE: Final = 25
#: One in so many seeds uses dialect frames; one is checked after every event.
DIALECTS_EVERY: Final = 10
#: Among the seeds with this remainder, only the broker fails.
OUTAGES_AT: Final = 5
#: Among twenty seeds, the one with this remainder has a disk that stalls as its only fault.
STALLS_AT: Final = 15
#: Among the seeds with this remainder, only the broker fails, and workers have no identity.
UNNAMED_AT: Final = 9
#: Among the seeds with this remainder, several brokers work for each other.
MESH_AT: Final = 7
#: Among the seeds with this remainder, three nodes share a replicated ledger.
CLUSTER_AT: Final = 3
CLOSELY_EVERY: Final = 20


def run_seed(seed: int) -> Outcome:
    """Run one world: most at the core level, some with dialects, outages, links or clusters."""
    if seed % DIALECTS_EVERY == 0:
        return simulate_dialects(seed, every=SPARSE)
    if seed % CLOSELY_EVERY == STALLS_AT:
        return simulate_disk(seed, every=SPARSE)
    if seed % DIALECTS_EVERY == OUTAGES_AT:
        return simulate_outages(seed, every=SPARSE)
    if seed % DIALECTS_EVERY == UNNAMED_AT:
        return simulate_unnamed(seed, every=SPARSE)
    if seed % DIALECTS_EVERY == MESH_AT:
        return simulate_mesh(seed, every=SPARSE)
    if seed % DIALECTS_EVERY == CLUSTER_AT:
        return simulate_cluster(seed)
    return simulate(seed, every=1 if seed % CLOSELY_EVERY == 1 else SPARSE)


class CampaignTally:
    """The totals over all worlds."""

    def __init__(self) -> None:
        self.started_at = time.monotonic()
        self.seeds = self.events = self.records = 0
        self.faults: Counter[str] = Counter()
        self.failures: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Add one outcome."""
        self.seeds += 1
        self.events += outcome.events
        self.records += outcome.records
        self.faults += outcome.faults
        if outcome.failure:
            self.failures.append(outcome)

    @property
    def seconds(self) -> float:
        """Elapsed seconds."""
        return time.monotonic() - self.started_at

    def line(self) -> str:
        """Return the totals as one line."""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.faults.most_common())
        return (
            f"{self.seeds:,} seeds, {self.faults.total():,} faults ({kinds}), "
            f"{self.events:,} events, {self.records:,} records, "
            f"{len(self.failures)} failures, {self.seconds:.1f} s"
        )


def outcomes(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    """Run seeds in `jobs` processes; yield outcomes as they finish."""
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    # Spawned, so that a world does not depend on the memory of its parent.
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=4)
        pool.terminate()


@value
class CampaignBounds:
    """When to stop. `faults` applies only without `seeds`."""

    first: int = 1
    seeds: int = 0
    faults: int = 1_000_000
    minutes: float = 0.0
    jobs: int = 1
    keep_going: bool = False


def run(bounds: CampaignBounds, say: Callable[[str], None]) -> CampaignTally:
    """Run worlds until a bound is reached or one fails."""
    tally, said_at = CampaignTally(), 0.0
    last = bounds.first + bounds.seeds if bounds.seeds else sys.maxsize
    for outcome in outcomes(range(bounds.first, last), bounds.jobs):
        tally.add(outcome)
        if tally.seconds - said_at >= 10:
            said_at = tally.seconds
            say(tally.line())
        has_enough = not bounds.seeds and tally.faults.total() >= bounds.faults
        is_late = bounds.minutes and tally.seconds >= 60 * bounds.minutes
        if has_enough or is_late or (tally.failures and not bounds.keep_going):
            break
    return tally
