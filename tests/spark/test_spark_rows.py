"""Arrow in, arguments out; outcomes in, a column of answers out, one for every row."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dragoman.spark.rows import UNFIT, Failure, answer_column, answer_type, arguments

LOST = Failure("worker_lost", "w1 is gone", False)


def answers(outcomes: list[Any], kind: pa.DataType | None) -> list[Any]:
    return list(answer_column(outcomes, kind).to_pylist())


def test_values_that_json_lacks_become_text_and_bytes_stay_bytes() -> None:
    column = pa.array(
        [{"day": date(2026, 1, 5), "at": datetime(2026, 1, 5, tzinfo=UTC), "raw": b"\xff"}],
        pa.struct([("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("raw", pa.binary())]),
    )
    assert arguments(column) == [
        {"day": "2026-01-05", "at": "2026-01-05T00:00:00Z", "raw": b"\xff"}
    ]
    assert arguments(pa.array([Decimal("1.50")])) == ["1.50"]


def test_maps_become_objects_at_any_depth_and_nothing_stays_nothing() -> None:
    inner = pa.map_(pa.int32(), pa.list_(pa.map_(pa.string(), pa.int64())))
    column = pa.array([{"m": [(1, [[("a", 2)]])]}, {"m": None}, None], pa.struct([("m", inner)]))
    assert arguments(column) == [{"m": {"1": [{"a": 2}]}}, {"m": None}, None]


def test_values_and_faults_stand_side_by_side() -> None:
    column = answer_column([1, LOST, None], pa.int32())
    assert column.type == answer_type(pa.int32())
    assert column.to_pylist() == [
        {"value": 1, "fault": None},
        {
            "value": None,
            "fault": {"code": "worker_lost", "message": "w1 is gone", "definite": False},
        },
        {"value": None, "fault": None},
    ]


@pytest.mark.parametrize("odd", ["text", {"a": 1}, [1], 2**40, 1.5])
def test_one_answer_that_does_not_fit_is_a_fault_and_the_others_are_kept(odd: Any) -> None:
    column = answers([1, odd, 3], pa.int32())
    assert [row["value"] for row in column] == [1, None, 3]
    assert column[1]["fault"]["code"] == UNFIT
    assert column[1]["fault"]["definite"]


def test_a_fraction_is_not_cut_off_in_silence_at_any_depth() -> None:
    kind = pa.struct([("a", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
    said = [{"a": [1.0]}, {"a": [1.5]}, {"m": {"k": 0.5}}, {"m": {"k": 2}}]
    faults = [row["fault"] for row in answers(said, kind)]
    assert [fault is not None for fault in faults] == [False, True, True, False]


def test_without_a_type_values_are_json_text() -> None:
    column = answers([{"a": [1, None]}, "x", b"text", b"\xff", LOST], None)
    assert [row["value"] for row in column] == ['{"a":[1,null]}', '"x"', "text", None, None]
    assert [row["fault"] and row["fault"]["code"] for row in column[3:]] == [UNFIT, "worker_lost"]


def test_no_rows_are_a_column_without_rows() -> None:
    assert answers([], pa.float64()) == []
