"""`make powercut`: cut the power again and again; nothing that was promised may be missing.

First a ledger alone, through SQLite's own access to files. Then a whole broker on a disk that is
mounted by FUSE; where that cannot be, this says why and leaves it out. A cut keeps what was
synced. Of the changes after it, each is kept, lost, or torn at a sector.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.powercut_broker import PowercutCampaign

from scripts import fuse_mount, powercut_ledger


def cut_ledgers(seeds: Sequence[int]) -> str:
    """Cut the power of a new ledger for each seed; say what was found."""
    acknowledged = more = 0
    for seed in seeds:
        promised, besides = powercut_ledger.cut(seed)
        acknowledged += promised
        more += besides
    return f"{acknowledged} records were acknowledged, none is missing, {more} more were kept"


def cut_brokers(seeds: Sequence[int]) -> str:
    """Cut the power of one broker for each seed; say what was found."""
    if reason := fuse_mount.why_not():
        return f"skipped: {reason}"
    with tempfile.TemporaryDirectory(prefix="dragoman-powercut-") as name:
        campaign = PowercutCampaign(Path(name))
        for seed in seeds:
            campaign.round(seed)
    return (
        f"{len(campaign.taken)} jobs were acknowledged and {len(campaign.told)} results were told, "
        f"none is missing ({campaign.syncs} syncs of files, {campaign.directory_syncs} of folders)"
    )


KINDS = {"ledger": cut_ledgers, "broker": cut_brokers}


def main(arguments: Sequence[str] | None = None) -> int:
    """Cut the power `--rounds` times, of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="power cuts of each kind (50)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round (1)")
    parser.add_argument("--only", choices=KINDS, help="one kind of cuts")
    given = parser.parse_args(arguments)
    seeds = range(given.seed, given.seed + given.rounds)
    for kind in [given.only] if given.only else KINDS:
        started = time.monotonic()
        found = KINDS[kind](seeds)
        took = time.monotonic() - started
        sys.stdout.write(
            f"{kind}, {len(seeds)} cuts from seed {given.seed}: {found}; {took:.0f} s\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
