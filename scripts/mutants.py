"""`make mutants`: change the broker in small ways, and see whether its tests notice.

For every mutant a forked process runs the tests of its module, then some seeds of the simulation.
A mutant is killed by a failed test, a failed seed, or a timeout; the others survive and are listed.
The run fails if fewer than `--at-least` per cent are killed. The same `--seed` draws the same
mutants.
"""

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from scripts.mutation import Mutation, mutate, mutations  # noqa: E402

#: Files, and the tests beside their twins that should notice a change; the twins run first.
TARGETS: Final = {
    "src/dragoman/core/*.py": ["tests/core"],
    "src/dragoman/server/engine.py": ["tests/server/test_loop.py"],
    "src/dragoman/server/loop.py": ["tests/server/test_engine.py"],
    "src/dragoman/server/links.py": ["tests/server/test_engine.py"],
}
#: Imported before the first fork, so that no mutant pays for it. Nothing of the broker.
PRELOADED: Final = ("pytest", "hypothesis", "hypothesis.stateful", "structlog", "apsw", "msgspec")
#: Seconds of processor time, so that a busy machine kills no mutant; and of the clock.
CPU_LIMIT: Final = 40
TIMEOUT: Final = 240.0
KILLED: Final = 1


@dataclass(frozen=True)
class Mutant:
    """One mutation of one file."""

    path: Path
    mutation: Mutation

    @property
    def module(self) -> str:
        """The name that the file is imported by."""
        return ".".join(self.path.relative_to(ROOT / "src").with_suffix("").parts)


class MutantFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from its mutated source, and leaves all others alone."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the mutated module."""
        if name != self._mutant.module:
            return None
        return importlib.util.spec_from_file_location(name, self._mutant.path, loader=self)

    def _code(self) -> CodeType:
        source = self._mutant.path.read_text()
        return compile(mutate(source, self._mutant.mutation.index), self._mutant.path, "exec")

    def exec_module(self, module: ModuleType) -> None:
        """Run the mutated source."""
        exec(self._code(), module.__dict__)


def draw(seed: int, count: int, only: str) -> list[Mutant]:
    """Draw mutants, as many from each file as its share of all mutations."""
    found = [
        Mutant(path, mutation)
        for pattern in TARGETS
        for path in sorted(ROOT.glob(pattern))
        if only in str(path.relative_to(ROOT))
        for mutation in mutations(path.read_text())
    ]
    if count >= len(found):
        return found
    chosen = random.Random(seed).sample(range(len(found)), count)
    return [found[index] for index in sorted(chosen)]


def tests_of(path: Path) -> list[str]:
    """Return the tests of a file: its twin, what was split off it, then the others."""
    name = path.relative_to(ROOT)
    tests = next(tests for pattern, tests in TARGETS.items() if name.match(pattern))
    folder = ROOT / "tests" / name.parts[2]
    twins = [*folder.glob(f"test_{path.name}"), *sorted(folder.glob(f"test_{path.stem}_*.py"))]
    return [*map(str, twins), *(str(ROOT / test) for test in tests)]


def judge(path: Path, mutant: Mutant | None, seeds: int) -> bool:
    """Tell whether the tests or the simulation notice a mutant. Runs in a process of its own."""
    import pytest

    if mutant is not None:
        sys.meta_path.insert(0, MutantFinder(mutant))
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--timeout=10"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what was preloaded
    os.environ["CI"] = "1"  # hypothesis draws the same examples for every mutant
    if pytest.main([*options, *tests_of(path)]) != 0:
        return True
    from dragoman.testing.simulation import simulate

    return any(simulate(seed, every=3).failure for seed in range(1, seeds + 1))


def is_killed(path: Path, mutant: Mutant | None, seeds: int) -> bool:
    """Judge a mutant of a file, or the file as it is, in a forked process."""
    pid = os.fork()
    if pid == 0:
        code = KILLED
        with contextlib.suppress(BaseException):
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 1)
            os.dup2(devnull, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
            sys.stdout = sys.stderr = io.TextIOWrapper(io.FileIO(devnull, "w"))
            code = KILLED if judge(path, mutant, seeds) else 0
        os._exit(code)
    return _wait(pid) != 0


def _wait(pid: int) -> int:
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return KILLED


def run(mutants: list[Mutant], seeds: int) -> Iterator[tuple[Mutant, bool]]:
    """Judge every mutant; print each survivor when it is found."""
    for number, mutant in enumerate(mutants, 1):
        killed = is_killed(mutant.path, mutant, seeds)
        if not killed:
            print(f"survived  {mutant.path.relative_to(ROOT)}:{mutant.mutation}", flush=True)
        if number % 50 == 0:
            print(f"          {number} of {len(mutants)}", flush=True)
        yield mutant, killed


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description="Test the tests of the core and the loop.")
    parser.add_argument("--seed", type=int, default=1, help="draws the mutants")
    parser.add_argument("--count", type=int, default=200, help="how many; 0: all")
    parser.add_argument("--seeds", type=int, default=8, help="simulations of a survivor")
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--at-least", type=float, default=90.0, help="per cent to be killed")
    options = parser.parse_args()
    for name in PRELOADED:
        importlib.import_module(name)
    mutants = draw(options.seed, options.count or sys.maxsize, options.only)
    for path in {mutant.path.parent: mutant.path for mutant in mutants}.values():
        if is_killed(path, None, options.seeds):
            print(f"{path.relative_to(ROOT)} is not changed, and its tests fail: run them first")
            return 2
    results = list(run(mutants, options.seeds))
    by_file: dict[Path, list[bool]] = {}
    for mutant, killed in results:
        by_file.setdefault(mutant.path, []).append(killed)
    for path, killed_ones in by_file.items():
        print(f"{sum(killed_ones):4} of {len(killed_ones):4} killed  {path.relative_to(ROOT)}")
    count = sum(killed for _, killed in results)
    percent = 100.0 * count / max(1, len(results))
    print(f"{count} of {len(results)} killed: {percent:.1f} %, seed {options.seed}")
    return 0 if percent >= options.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
