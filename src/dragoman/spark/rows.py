"""Conversion of Arrow rows to arguments of calls, and of outcomes to a column of answers.

Pure: no Spark session, no connection. An outcome is a value or a `Failure`, and every row has
exactly one. A value that does not fit the requested type becomes a failure.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from dragoman.model.value import value

#: The fault code of an answer that does not fit the requested type.
UNFIT: Final = "unfit_answer"
_BYTES: Final = (bytes, bytearray, memoryview)
#: What pyarrow raises if a value does not fit a type.
_UNFIT: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)

FAULT: Final = pa.struct(
    [("code", pa.string()), ("message", pa.string()), ("definite", pa.bool_())]
)


@value
class Failure:
    """How a call ended without a value."""

    code: str
    message: str
    #: Whether it is certain that the work did not happen or failed.
    is_definite: bool


def arguments(column: "pa.Array[Any]") -> list[Any]:
    """Return the rows of a column as values that every dialect can carry."""
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


def _with_maps(row: Any, kind: pa.DataType) -> object:
    """Convert pyarrow's form of maps, lists of pairs, to objects."""
    if row is None:
        return None
    if pa.types.is_map(kind):
        return {_text(key): _with_maps(each, kind.item_type) for key, each in row}
    if pa.types.is_struct(kind):
        return {field.name: _with_maps(row[field.name], field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_with_maps(each, kind.value_type) for each in row]
    return row


def _text(key: object) -> str:
    return key if isinstance(key, str) else str(msgspec.to_builtins(key))


def answer_type(kind: pa.DataType) -> pa.StructType:
    """Return the type of a column of answers with values of one type."""
    return pa.struct([("value", kind), ("fault", FAULT)])


def answer_column(outcomes: Sequence[object], kind: pa.DataType | None) -> "pa.Array[Any]":
    """Return outcomes as a column. If `kind` is None, values are JSON text."""
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


def _as_text(outcome: object) -> object:
    """Return a value as JSON text; decode bytes as UTF-8."""
    if isinstance(outcome, Failure):
        return outcome
    if isinstance(outcome, _BYTES):
        try:
            return bytes(outcome).decode()
        except UnicodeDecodeError:
            return Failure(UNFIT, "the answer is bytes; use returns='binary'", True)
    return msgspec.json.encode(outcome).decode()


def _values(outcomes: list[object], kind: pa.DataType) -> "tuple[pa.Array[Any], list[Any]]":
    """Return the values as a column; turn each value that does not fit into a failure."""
    try:
        return _array(outcomes, kind), outcomes
    except _UNFIT:
        outcomes = [_fitting(each, kind) for each in outcomes]
        return _array(outcomes, kind), outcomes


def _array(outcomes: list[object], kind: pa.DataType) -> "pa.Array[Any]":
    values = [None if isinstance(o, Failure) else o for o in outcomes]
    for each in values:
        _check_whole(each, kind)
    return pa.array(values, kind)


def _check_whole(answer: object, kind: pa.DataType) -> None:
    """Refuse a fraction for an integer type: pyarrow would truncate it silently."""
    if isinstance(answer, float):
        if pa.types.is_integer(kind) and not answer.is_integer():
            raise ValueError(f"{answer} is not a whole number")
    elif isinstance(answer, list) and pa.types.is_list(kind):
        for each in answer:
            _check_whole(each, kind.value_type)
    elif isinstance(answer, dict) and pa.types.is_struct(kind):
        for field in kind:
            _check_whole(answer.get(field.name), field.type)
    elif isinstance(answer, dict) and pa.types.is_map(kind):
        for each in answer.values():
            _check_whole(each, kind.item_type)


def _fitting(outcome: object, kind: pa.DataType) -> object:
    try:
        _array([outcome], kind)
    except _UNFIT as error:
        # Definite: the task ran, and another run gives the same answer.
        return Failure(UNFIT, f"the answer is not a {kind}: {error}", True)
    return outcome
