from pathlib import Path

import pytest
from scripts.pipeline_chaos import POINTS, WRITTEN, ChaosFailed, Lab, chaos, make_lab

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return make_lab(tmp_path_factory.mktemp("lab"))


def test_every_table_has_its_points() -> None:
    assert len(POINTS) == 4 * len(WRITTEN) + 2
    assert {"after write jobs", "before commit audit", "after commit steps"} <= set(POINTS)


def test_a_run_that_is_killed_between_two_commits_is_undone_and_done_again(lab: Lab) -> None:
    lines = dict(chaos(lab, [("duckdb", "after commit jobs")], []))
    assert lines == {"duckdb killed after commit jobs": "step undone"}


def test_a_run_that_is_killed_after_the_last_commit_is_done(lab: Lab) -> None:
    lines = dict(chaos(lab, [("duckdb", "after commit steps")], []))
    assert lines == {"duckdb killed after commit steps": "step done"}


def test_two_processes_on_the_same_tables_give_those_of_one(lab: Lab) -> None:
    (line,) = chaos(lab, [], [(("duckdb", "duckdb"), ("run", "stream"))])
    assert line[0] == "duckdb run beside duckdb stream"


def test_tables_that_differ_are_noticed(lab: Lab, tmp_path: Path) -> None:
    wrong = {1_500: {**lab.wanted[1_500], "jobs": "another digest"}}
    with pytest.raises(ChaosFailed, match="these tables differ: jobs"):
        Lab(tmp_path, lab.source, lab.begun, wrong).check(str(lab.begun), "a run")
