from datetime import date
from pathlib import Path

import pytest
from tests.pipeline.test_pipeline_delta import SCHEMA, write

from dragoman.pipeline.delta import ConcurrentWriter
from dragoman.pipeline.table_state import StepState, TableState

MON, TUE = date(2026, 1, 5), date(2026, 1, 6)


def put(step: StepState, root: Path, day: date | None, *names: str) -> None:
    """Write a file of the table `t` and keep what is settled."""
    folder = write(root / "t", step.attempt, day, *names)
    step.take("t", step.settled("t"), folder, SCHEMA)


def test_a_step_keeps_settled_files_and_drops_open_ones(tmp_path: Path) -> None:
    for number, day in enumerate((MON, None, TUE), 1):
        step = StepState(TableState(str(tmp_path)))
        put(step, tmp_path, day, f"row {number}")
        assert step.counts == {"t": 1}
        step.commit(number, None)
    state = TableState(str(tmp_path))
    assert sorted(str(f.day) for f in state.files("t").values()) == ["2026-01-05", "2026-01-06"]
    step = StepState(state)
    assert [f.day for f in step.settled("t", TUE).values()] == [MON]
    assert [f.day for f in step.files("t", TUE)] == [TUE]
    assert state.snapshot.seq == 3


def test_of_two_steps_from_one_state_the_second_is_refused(tmp_path: Path) -> None:
    one, two = (StepState(TableState(str(tmp_path))) for _ in range(2))
    put(one, tmp_path, MON, "one")
    put(two, tmp_path, MON, "two")
    one.commit(1, None)
    with pytest.raises(ConcurrentWriter):
        two.commit(1, None)


def test_a_state_takes_over_what_another_writer_committed(tmp_path: Path) -> None:
    state, rival = TableState(str(tmp_path)), TableState(str(tmp_path))
    state.refresh()
    step = StepState(rival)
    put(step, tmp_path, MON, "rival")
    step.commit(1, None)
    state.refresh()
    assert (state.snapshot, state.files("t")) == (rival.snapshot, rival.files("t"))


def test_a_second_write_of_a_table_has_a_folder_of_its_own(tmp_path: Path) -> None:
    step = StepState(TableState(str(tmp_path)))
    first = step.folder("t")
    put(step, tmp_path, MON, "one")
    assert step.folder("t") != first
