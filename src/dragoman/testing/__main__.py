"""Run many simulated worlds: `python -m dragoman.testing` (and `make sim`)."""

import argparse
import os
import sys

from dragoman.testing.campaign import CampaignBounds, run, run_seed


def options() -> argparse.ArgumentParser:
    """Return the command line parser."""
    parser = argparse.ArgumentParser(prog="python -m dragoman.testing", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one seed and show its trace")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument(
        "--seeds", type=int, default=0, help="number of seeds; --faults is then ignored"
    )
    parser.add_argument(
        "--faults", type=int, default=1_000_000, help="stop after this many faults (1,000,000)"
    )
    parser.add_argument("--minutes", type=float, default=0, help="stop after this many minutes")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (all cores)"
    )
    parser.add_argument("--keep-going", action="store_true", help="continue after a failure")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the simulation; return 1 if a promise was broken."""
    args = options().parse_args(argv)

    def report(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    if args.seed is not None:
        outcome = run_seed(args.seed)
        report(outcome.failure or f"seed {args.seed}: no promise was broken")
        report(f"trace {outcome.trace}, {outcome.steps} steps, {dict(outcome.faults)}")
        return 1 if outcome.failure else 0
    bounds = CampaignBounds(
        args.first, args.seeds, args.faults, args.minutes, args.jobs, args.keep_going
    )
    tally = run(bounds, report)
    for failed in tally.failures[:3]:
        report(failed.failure)
    report(tally.line())
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
