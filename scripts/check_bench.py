"""`make check-bench`: count the instructions of the hot path, compare them with kept figures.

Valgrind counts instructions, so the load of the machine does not matter. The difference between two
runs leaves out start and imports. The figures depend on the interpreter: they are kept for each
version of Python (`benches/instructions.json`). `--keep` writes the figures of this one.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
KEPT: Final = ROOT / "benches" / "instructions.json"
#: The two counts; their difference is what is measured.
FEW, MANY = 100, 400
#: A figure may be larger by this share: hash seeds are fixed, addresses are not.
TOLERANCE: Final = 0.05

Figures = dict[str, int]


def interpreter() -> str:
    """Return what the figures depend on."""
    return f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def instructions(workload: str, count: int) -> int:
    """Run a workload under Valgrind; return the instructions of the whole process."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command += [sys.executable, "-m", "benches.counted", workload, str(count)]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"{workload}: {done.stderr.strip()[-500:]}")
    return int(found[1])


def measure(workload: str) -> int:
    """Return the instructions of one turn of a workload."""
    return (instructions(workload, MANY) - instructions(workload, FEW)) // (MANY - FEW)


def compare(found: Figures, kept: Figures) -> list[str]:
    """Return a line for each figure that is larger than it may be."""
    return [
        f"{name}: {figure:,} instructions, {figure / kept[name] - 1:+.1%} of {kept[name]:,}"
        for name, figure in found.items()
        if name in kept and figure > kept[name] * (1 + TOLERANCE)
    ]


def main(arguments: list[str]) -> int:
    """Measure and compare; return 1 if the hot path has become dearer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="write the figures of this run")
    wanted = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed (apt-get install valgrind)")
        return 0
    sys.path.insert(0, str(ROOT))
    from benches.counted import WORKLOADS

    found = {name: measure(name) for name in WORKLOADS}
    for name, figure in found.items():
        print(f"{name:24} {figure:12,} instructions")
    everything: dict[str, Figures] = json.loads(KEPT.read_text())
    if wanted.keep:
        KEPT.write_text(json.dumps(everything | {interpreter(): found}, indent=2) + "\n")
        return 0
    if interpreter() not in everything:
        print(f"no figures are kept for {interpreter()}; write them with --keep")
        return 0
    problems = compare(found, everything[interpreter()])
    print("\n".join(problems) or "within 5 % of the kept figures")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
