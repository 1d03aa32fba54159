"""Soak a fabric of real processes: `python -m dragoman.testing.soak --minutes 10`."""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from dragoman.testing.soak.run import Soak
from dragoman.testing.soak.verdict import describe, judge


def options() -> argparse.ArgumentParser:
    """Return the command line parser."""
    parser = argparse.ArgumentParser(prog="python -m dragoman.testing.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="duration in minutes (10)")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between faults (10)")
    spared = "last share of the time in which the broker is not killed and its memory is checked"
    parser.add_argument("--spared", type=float, default=0.5, help=f"{spared} (0.5)")
    parser.add_argument("--seed", type=int, help="repeat the faults and calls of an earlier run")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the soak; return 0 only if every check passed."""
    args = options().parse_args(argv)
    seed = random.SystemRandom().randrange(2**32) if args.seed is None else args.seed
    folder = Path(tempfile.mkdtemp(prefix="dragoman-soak-"))

    def report(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    report(f"seed {seed}; logs are in {folder}")
    found = Soak(folder, seed, report).run(args.minutes * 60, args.every, args.spared)
    report(describe(found))
    problems = judge(found)
    report("\n".join(f"FAILED: {text}" for text in problems) or "all checks passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
