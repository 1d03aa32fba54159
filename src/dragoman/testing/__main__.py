"""Run many simulated worlds: `python -m dragoman.testing` (and `make sim`)."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from typing import Final

from dragoman.testing.simulation import Outcome, simulate
from dragoman.testing.spoken import simulate_spoken

#: After how many events the whole state is looked at, where many worlds are run.
SPARSE: Final = 25
#: Every so many seeds, one world speaks the dialects' own frames, and one is looked at closely.
SPOKEN_EVERY: Final = 10
CLOSELY_EVERY: Final = 20


def run_seed(seed: int) -> Outcome:
    """Run one world as the long run does: most are plain, some spoken, some looked at closely."""
    if seed % SPOKEN_EVERY == 0:
        return simulate_spoken(seed, every=SPARSE)
    return simulate(seed, every=1 if seed % CLOSELY_EVERY == 1 else SPARSE)


class Tally:
    """What all worlds together came to."""

    def __init__(self) -> None:
        self.started_at = time.monotonic()
        self.seeds = self.events = self.records = 0
        self.faults: Counter[str] = Counter()
        self.failures: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Count one world."""
        self.seeds += 1
        self.events += outcome.events
        self.records += outcome.records
        self.faults += outcome.faults
        if outcome.failure:
            self.failures.append(outcome)

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self.started_at

    def line(self) -> str:
        """Say it in one line."""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.faults.most_common())
        return (
            f"{self.seeds:,} seeds, {self.faults.total():,} faults ({kinds}), "
            f"{self.events:,} events, {self.records:,} records, "
            f"{len(self.failures)} failures, {self.seconds:.1f} s"
        )


def outcomes(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    """Run seeds on so many processes; outcomes come as they are ready."""
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    # Spawned, so that a world never depends on what its parent had in memory.
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=4)
        pool.terminate()


def run(args: argparse.Namespace, say: Callable[[str], None]) -> Tally:
    """Run worlds until a bound is met: seeds, faults or minutes, or one that failed."""
    tally, said_at = Tally(), 0.0
    last = args.first + args.seeds if args.seeds else sys.maxsize
    for outcome in outcomes(range(args.first, last), args.jobs):
        tally.add(outcome)
        if tally.seconds - said_at >= 10:
            said_at = tally.seconds
            say(tally.line())
        has_enough = not args.seeds and tally.faults.total() >= args.faults
        is_late = args.minutes and tally.seconds >= 60 * args.minutes
        if has_enough or is_late or (tally.failures and not args.keep_going):
            break
    return tally


def options() -> argparse.ArgumentParser:
    """Say what can be asked for."""
    parser = argparse.ArgumentParser(prog="python -m dragoman.testing", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one seed, closely, and show its trace")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--seeds", type=int, default=0, help="so many seeds, whatever the faults")
    parser.add_argument(
        "--faults", type=int, default=1_000_000, help="at least so many (1,000,000)"
    )
    parser.add_argument("--minutes", type=float, default=0, help="stop after so many minutes")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (all cores)"
    )
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run what is asked for; 1 if a promise was broken."""
    args = options().parse_args(argv)

    def say(words: str) -> None:
        sys.stdout.write(words + "\n")
        sys.stdout.flush()

    if args.seed is not None:
        outcome = run_seed(args.seed)
        say(outcome.failure or f"seed {args.seed}: nothing broke")
        say(f"trace {outcome.trace}, {outcome.steps} steps, {dict(outcome.faults)}")
        return 1 if outcome.failure else 0
    tally = run(args, say)
    for failed in tally.failures[:3]:
        say(failed.failure)
    say(tally.line())
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
