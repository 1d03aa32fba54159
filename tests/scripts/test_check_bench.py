"""The guard of the hot path: figures that grow fail, workloads run."""

import pytest
from benches.counted import WORKLOADS
from scripts.check_bench import compare


def test_a_figure_beyond_the_tolerance_is_named_and_others_are_not() -> None:
    kept = {"core": 1000, "ledger row": 1000}
    (problem,) = compare({"core": 1051, "ledger row": 1049, "new": 5}, kept)
    assert problem == "core: 1,051 instructions, +5.1% of 1,000"


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_runs_as_often_as_it_is_told(workload: str) -> None:
    WORKLOADS[workload](100)
