"""Rows of Arrow batches as arguments of calls, and outcomes of calls as a column of answers.

Pure: no Spark session, no connection. An outcome is a value or a `Failure`; there is one for every
row, whatever happened, and one that does not fit the type that was asked for is a failure too.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from dragoman.model.value import value

#: An answer that is not of the type that was asked for.
UNFIT: Final = "unfit_answer"
_BYTES: Final = (bytes, bytearray, memoryview)
#: What pyarrow raises when a value is not of a type.
_UNFIT: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)

FAULT: Final = pa.struct(
    [("code", pa.string()), ("message", pa.string()), ("definite", pa.bool_())]
)


@value
class Failure:
    """How a call ended without a value."""

    code: str
    message: str
    #: Whether the work surely did not happen, or surely failed.
    is_definite: bool


def arguments(column: "pa.Array[Any]") -> list[Any]:
    """Return the rows of a column in values that every dialect can carry."""
    found = column.to_pylist()
    if _has_maps(column.type):
        found = [_with_maps(row, column.type) for row in found]
    # Instants, dates and decimals become text.
    return [msgspec.to_builtins(row, builtin_types=_BYTES) for row in found]


def _has_maps(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    fields = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return any(_has_maps(field.type) for field in fields)


def _with_maps(row: Any, kind: pa.DataType) -> Any:
    """Turn what pyarrow makes of maps, which is lists of pairs, into objects."""
    if row is None:
        return None
    if pa.types.is_map(kind):
        return {_text(key): _with_maps(each, kind.item_type) for key, each in row}
    if pa.types.is_struct(kind):
        return {field.name: _with_maps(row[field.name], field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_with_maps(each, kind.value_type) for each in row]
    return row


def _text(key: Any) -> str:
    return key if isinstance(key, str) else str(msgspec.to_builtins(key))


def answer_type(kind: pa.DataType) -> pa.StructType:
    """Return the type of a column of answers whose values are of a type."""
    return pa.struct([("value", kind), ("fault", FAULT)])


def answer_column(outcomes: Sequence[Any], kind: pa.DataType | None) -> "pa.Array[Any]":
    """Return outcomes as a column; without a type, values are JSON text."""
    outcomes = [_as_text(each) for each in outcomes] if kind is None else list(outcomes)
    chosen = kind or pa.string()
    values, outcomes = _values(outcomes, chosen)
    faults = [
        {"code": each.code, "message": each.message, "definite": each.is_definite}
        if isinstance(each, Failure)
        else None
        for each in outcomes
    ]
    fields = list(answer_type(chosen))
    made: pa.Array[Any] = pa.StructArray.from_arrays(
        [values, pa.array(faults, FAULT)], fields=fields
    )
    return made


def _as_text(outcome: Any) -> Any:
    """Write a value as JSON; bytes that are text are text."""
    if isinstance(outcome, Failure):
        return outcome
    if isinstance(outcome, _BYTES):
        try:
            return bytes(outcome).decode()
        except UnicodeDecodeError:
            return Failure(UNFIT, "the answer is bytes; ask for returns='binary'", True)
    return msgspec.json.encode(outcome).decode()


def _values(outcomes: list[Any], kind: pa.DataType) -> "tuple[pa.Array[Any], list[Any]]":
    """Return the values as a column; those that do not fit become failures, one by one."""
    try:
        return _array(outcomes, kind), outcomes
    except _UNFIT:
        outcomes = [_fitting(each, kind) for each in outcomes]
        return _array(outcomes, kind), outcomes


def _array(outcomes: list[Any], kind: pa.DataType) -> "pa.Array[Any]":
    values = [None if isinstance(o, Failure) else o for o in outcomes]
    for each in values:
        _check_whole(each, kind)
    return pa.array(values, kind)


def _check_whole(said: Any, kind: pa.DataType) -> None:
    """Refuse a fraction where a whole number is wanted: pyarrow would cut it off in silence."""
    if isinstance(said, float):
        if pa.types.is_integer(kind) and not said.is_integer():
            raise ValueError(f"{said} is no whole number")
    elif isinstance(said, list) and pa.types.is_list(kind):
        for each in said:
            _check_whole(each, kind.value_type)
    elif isinstance(said, dict) and pa.types.is_struct(kind):
        for field in kind:
            _check_whole(said.get(field.name), field.type)
    elif isinstance(said, dict) and pa.types.is_map(kind):
        for each in said.values():
            _check_whole(each, kind.item_type)


def _fitting(outcome: Any, kind: pa.DataType) -> Any:
    try:
        _array([outcome], kind)
    except _UNFIT as error:
        # It did run, and running it again would not help.
        return Failure(UNFIT, f"the answer is no {kind}: {error}", True)
    return outcome
