"""Fuzz a live broker: `python -m dragoman.testing.fuzz --messages 100000`."""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from dragoman.testing.fabric import Fabric
from dragoman.testing.fuzz.attack import ATTACK_TARGETS, SETTINGS, attack, start_peers


def options() -> argparse.ArgumentParser:
    """Return the command line parser."""
    parser = argparse.ArgumentParser(prog="python -m dragoman.testing.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, help="make the same messages again")
    parser.add_argument("--messages", type=int, default=100_000, help="messages per link (100,000)")
    parser.add_argument(
        "--links", default=",".join(ATTACK_TARGETS), help="comma-separated links (all)"
    )
    parser.add_argument("--vectors", type=Path, help="a folder of captured messages by dialect")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Attack each link in turn; return 1 if a check failed."""
    args = options().parse_args(argv)
    seed = random.SystemRandom().randrange(2**32) if args.seed is None else args.seed
    links = args.links.split(",")
    folder = Path(tempfile.mkdtemp(prefix="dragoman-fuzz-"))
    fabric, passed = Fabric(folder, SETTINGS), True
    sys.stdout.write(f"seed {seed}; logs are in {folder}\n")
    try:
        start_peers(fabric, links)
        for link in links:
            outcome = attack(fabric, link, seed, args.messages, args.vectors)
            sys.stdout.write(f"{outcome}\n")
            sys.stdout.flush()
            passed = passed and not outcome.problems
    finally:
        fabric.stop()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
