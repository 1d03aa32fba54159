"""`call_service`: add a column with a service's answers to a frame.

Rows travel in Arrow batches. Each row is one call, and many calls are open at a time. Each of
Spark's Python processes has one connection. Spark may run a task, or a whole frame, twice. A row's
job id is derived from its key, so the broker returns the first answer the second time.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    BooleanType,
    DataType,
    StringType,
    StructField,
    StructType,
)

from dragoman.model.content import Call
from dragoman.model.value import value
from dragoman.sdk.url import parse_url
from dragoman.spark.credentials import reference
from dragoman.spark.executor_connection import KEYED, CallTerms, connection_to
from dragoman.spark.keys import chunk_id, row_id
from dragoman.spark.rows import UNFIT, Failure, answer_column, arguments

#: Internal columns between Spark and its Python processes.
_ARGUMENTS: Final = "__dragoman_arguments"
_KEY: Final = "__dragoman_key"

FAULT: Final = StructType(
    [
        StructField("code", StringType()),
        StructField("message", StringType()),
        StructField("definite", BooleanType()),
    ]
)


@value
class ServiceCaller:
    """The function that runs in the executors: where to call, what, and the answer's type."""

    url: str
    task: str
    run: str
    terms: CallTerms
    #: The Arrow type of the values; None for JSON text.
    kind: pa.DataType | None
    into: str
    #: Rows in one call. If 1, columns are keyword arguments; else the only argument is a list.
    rows_per_call: int
    #: Where an executor finds its credentials; never the secrets themselves.
    credentials: str = ""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Call the service for every row; yield the batches with their answers."""
        connection = connection_to(self.url, self.credentials)
        for batch in batches:
            ids, rows = self._ids(batch), arguments(batch.column(_ARGUMENTS))
            if self.rows_per_call == 1:
                calls = [(i, self._call((), row)) for i, row in zip(ids, rows, strict=True)]
                outcomes = connection.call_all(calls, self.terms)
            else:
                chunks = list(self._chunks(ids, rows))
                found = connection.call_all([chunk[:2] for chunk in chunks], self.terms)
                sizes = [size for _, _, size in chunks]
                outcomes = [
                    each
                    for found_, n in zip(found, sizes, strict=True)
                    for each in _split(found_, n)
                ]
            yield self._answered(batch, outcomes)

    def _ids(self, batch: pa.RecordBatch) -> list[str]:
        keys = arguments(batch.column(_KEY if _KEY in batch.schema.names else _ARGUMENTS))
        return [row_id(self.run, self.terms.service, self.task, key) for key in keys]

    def _call(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Call:
        return Call(self.task, args, kwargs, timeout=self.terms.timeout)

    def _chunks(self, ids: list[str], rows: list[object]) -> Iterator[tuple[str, Call, int]]:
        for at in range(0, len(ids), self.rows_per_call):
            chunk = rows[at : at + self.rows_per_call]
            yield chunk_id(ids[at : at + len(chunk)]), self._call((chunk,), {}), len(chunk)

    def _answered(self, batch: pa.RecordBatch, outcomes: list[object]) -> pa.RecordBatch:
        kept = [name for name in batch.schema.names if name not in (_ARGUMENTS, _KEY)]
        answers = answer_column(outcomes, self.kind)
        return pa.RecordBatch.from_arrays(
            [*(batch.column(name) for name in kept), answers], names=[*kept, self.into]
        )


def _split(outcome: object, rows: int) -> list[object]:
    """Return the outcome of each row of a chunk."""
    if isinstance(outcome, list) and len(outcome) == rows:
        return outcome
    if not isinstance(outcome, Failure):
        message = f"the task got {rows} rows and must return a list of {rows} answers"
        outcome = Failure(UNFIT, message, True)
    return [outcome] * rows


def call_service(
    rows: DataFrame,
    url: str,
    service: str,
    task: str = "",
    *,
    columns: Sequence[str] | Mapping[str, str | Column] | None = None,
    key: str | Sequence[str] | None = None,
    returns: str | DataType | None = None,
    into: str = "answer",
    run: str | None = None,
    timeout: float = 600.0,
    window: int = 128,
    retries: int = 5,
    rows_per_call: int = 1,
    target: str = "any",
    priority: int = 0,
    at_least_once: bool = False,
    credentials: str | Path | None = None,
) -> DataFrame:
    """Call a service for every row; return the rows with a column of answers.

    An answer is a struct of `value` and `fault` (`code`, `message`, `definite`), one of which is
    null. Every row has exactly one answer.

    Args:
        rows: Any frame.
        url: The broker, as executors reach it: `nfp://` or `http://`.
        service: The service to call.
        task: The task to call.
        columns: Arguments by name: columns, or a mapping of names to columns or expressions. All
            columns if not given.
        key: Columns that identify a row. Without them the arguments identify it, and rows with
            equal arguments are one call.
        returns: Spark's type of the values, as in `double` or `struct<a: int, b: string>`. JSON
            text if not given.
        into: The name of the new column.
        run: The name of the run. Each row is called once in a run, however often the run is
            started. Random if not given: then the returned frame is one run.
        timeout: Seconds from submission to the end of a job.
        window: Maximum open calls in each of Spark's Python processes.
        retries: How often a call that definitely did not run is repeated.
        rows_per_call: If more than 1, the task gets a list of so many rows (or fewer) as its only
            argument, and returns a list of as many answers.
        target: The workers within the service, as for any job.
        priority: Higher goes first among this client's jobs.
        at_least_once: Allow a dialect without idempotency keys, where a row may run twice.
        credentials: Where *executors* find their credentials: the path of a file that each of them
            has, or `env:NAME`, an environment variable of theirs with the path. If not given,
            `DRAGOMAN_KEY_FILE`, if that is set. The content never leaves the executor.

    """
    dialect = parse_url(url).dialect
    if dialect not in KEYED and not at_least_once:
        raise ValueError(
            f"{dialect} carries no idempotency keys, so rows may run twice if Spark repeats a "
            f"task; use nfp:// or http://, or allow it with at_least_once=True"
        )
    if rows_per_call < 1 or window < 1:
        raise ValueError("rows_per_call and window must be at least 1")
    _check_names(rows.columns, into)
    kind = StringType() if returns is None else _data_type(returns)
    caller = ServiceCaller(
        url,
        task,
        os.urandom(8).hex() if run is None else run,
        CallTerms(service, target, priority, timeout, window, retries),
        None if returns is None else to_arrow_type(kind),
        into,
        rows_per_call,
        reference(credentials),
    )
    answer = StructType([StructField("value", kind), StructField("fault", FAULT)])
    schema = StructType([*rows.schema.fields, StructField(into, answer)])
    return _prepared(rows, columns, key).mapInArrow(caller, schema)


def _check_names(names: list[str], into: str) -> None:
    duplicates = {name for name in names if names.count(name) > 1}
    if duplicates:
        found = ", ".join(sorted(duplicates))
        raise ValueError(f"several columns are called {found}; rename them")
    if into in names:
        raise ValueError(f"there is already a column {into!r}; choose another name with into=")


def _data_type(returns: str | DataType) -> DataType:
    return DataType.fromDDL(returns) if isinstance(returns, str) else returns


def _prepared(
    rows: DataFrame,
    columns: Sequence[str] | Mapping[str, str | Column] | None,
    key: str | Sequence[str] | None,
) -> DataFrame:
    """Add the internal columns: the arguments and the key of each row."""
    if not isinstance(columns, Mapping):
        columns = {name: name for name in (rows.columns if columns is None else columns)}
    fields = [_column(each).alias(name) for name, each in columns.items()]
    if not fields:
        raise ValueError("columns is empty; name at least one column to call the service with")
    more = [F.struct(*fields).alias(_ARGUMENTS)]
    if key is not None:
        names = [key] if isinstance(key, str) else list(key)
        more.append(F.struct(*[_column(name) for name in names]).alias(_KEY))
    return rows.select(*[_column(name) for name in rows.columns], *more)


def _column(column: str | Column) -> Column:
    return F.col(f"`{column.replace('`', '``')}`") if isinstance(column, str) else column
