"""`make mutants`: every operator changes what it says, and a mutant is noticed or survives."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.mutation import Mutation, mutate, mutations

from scripts import mutants

SOURCE = '''
LIMIT = 5


def decide(x, items=(1, 2), *, flag: bool = True):
    """Decide."""
    assert x is not None, "no x"
    if x < 3 and items:
        log.info("small", x=x + 1)
        x.count += 1
    x.name = f"{x + 1}"
    local = min(x, 7)
    while not local:
        break
    if items:
        del items[0]
    call(x)
    return local if flag else "a" + "b"
'''

EXPECTED = [
    ("comparison", "x < 3", "x <= 3"),
    ("constant", "3", "4"),
    ("and/or", "x < 3 and items", "x < 3 or items"),
    ("constant", "1", "2"),
    ("change dropped", "x.count += 1", "pass"),
    ("condition negated", "if x < 3 and items:", "if not (x < 3 and items):"),
    ("assignment dropped", "x.name = f'{x + 1}'", "pass"),
    ("constant", "7", "8"),
    ("call", "min(x, 7)", "max(x, 7)"),
    ("not dropped", "not local", "local"),
    ("goes on", "break", "continue"),
    ("constant", "0", "1"),
    ("change dropped", "del items[0]", "pass"),
    ("condition negated", "if items:", "if not items:"),
    ("call dropped", "call(x)", "pass"),
    ("condition negated", "local if flag else 'a' + 'b'", "local if not flag else 'a' + 'b'"),
    ("nothing returned", "return local if flag else 'a' + 'b'", "return None"),
]


def test_what_decides_is_changed_and_messages_defaults_and_logs_are_not() -> None:
    found = [(m.operator, m.before, m.after) for m in mutations(SOURCE)]
    # Those of a log call's arguments are harmless; its absence is no mutant.
    found = [each for each in found if "x + 1" not in each[1] or each[0] != "arithmetic"]
    assert sorted(found) == sorted([*EXPECTED, ("constant", "1", "2")])


@pytest.mark.parametrize("mutation", mutations(SOURCE), ids=str)
def test_each_mutation_changes_its_line_and_nothing_else(mutation: Mutation) -> None:
    before = ast.unparse(ast.parse(SOURCE)).splitlines()
    after = ast.unparse(mutate(SOURCE, mutation.index)).splitlines()
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert len(changed) == 1
    assert mutation.after.splitlines()[0].rstrip(":") in changed[0][1]


def test_the_same_seed_draws_the_same_mutants() -> None:
    drawn = mutants.draw(7, 20, "core/")
    assert drawn == mutants.draw(7, 20, "core/") != mutants.draw(8, 20, "core/")
    assert len(drawn) == 20
    assert {each.path.parent.name for each in drawn} == {"core"}


def test_the_twin_of_a_file_runs_before_all_others() -> None:
    tests = mutants.tests_of(mutants.ROOT / "src/dragoman/core/queues.py")
    assert [Path(each).name for each in tests] == ["test_queues.py", "core"]


@pytest.mark.process
def test_a_changed_engine_is_noticed_and_an_unchanged_one_is_not() -> None:
    script = mutants.ROOT / "scripts/mutants.py"
    options = ["--only", "server/engine.py", "--count", "1", "--seeds", "0"]
    ran = subprocess.run(
        [sys.executable, str(script), *options], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 of 1 killed: 100.0 %, seed 1" in ran.stdout
