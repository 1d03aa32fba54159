"""Soak a fabric of real processes: `python -m dragoman.testing.soak --minutes 10`."""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from dragoman.testing.soak.run import Soak
from dragoman.testing.soak.verdict import describe, judge


def options() -> argparse.ArgumentParser:
    """Say what can be asked for."""
    parser = argparse.ArgumentParser(prog="python -m dragoman.testing.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (10)")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between faults (10)")
    spared = "share of the time, the last, in which the broker is not killed: its memory is judged"
    parser.add_argument("--spared", type=float, default=0.5, help=f"{spared} (0.5)")
    parser.add_argument("--seed", type=int, help="the same order of faults and calls again")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Soak; 0 only if all of it held."""
    args = options().parse_args(argv)
    seed = random.SystemRandom().randrange(2**32) if args.seed is None else args.seed
    folder = Path(tempfile.mkdtemp(prefix="dragoman-soak-"))

    def say(words: str) -> None:
        sys.stdout.write(words + "\n")
        sys.stdout.flush()

    say(f"seed {seed}; logs are in {folder}")
    found = Soak(folder, seed, say).run(args.minutes * 60, args.every, args.spared)
    say(describe(found))
    troubles = judge(found)
    say("\n".join(f"NOT HELD: {words}" for words in troubles) or "all of it held")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
