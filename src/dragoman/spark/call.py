"""`call_service`: a frame goes in, the same frame with a column of answers comes out.

Rows travel in Arrow batches; each row is a call, many of them open at a time, over one connection
for each of Spark's Python processes. Spark may run a task twice, or a whole frame: a row's call is
known by its key, so the broker answers the second time with what the first one came to.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

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

#: Columns that exist only between Spark and its Python processes.
_SAID: Final = "__dragoman_said"
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
    """What goes to the executors: where to ask, what, and how to read the answer."""

    url: str
    task: str
    run: str
    terms: CallTerms
    #: The Arrow type of values; None: JSON text.
    kind: pa.DataType | None
    into: str
    #: Rows that go together in one call, as a list; 1: each by itself, by the names of its columns.
    rows_per_call: int
    #: Where an executor finds whom it speaks for; never the secrets themselves.
    credentials: str = ""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer batches; this is what runs in the executors."""
        line = connection_to(self.url, self.credentials)
        for batch in batches:
            ids, said = self._ids(batch), arguments(batch.column(_SAID))
            if self.rows_per_call == 1:
                calls = [(i, self._call((), row)) for i, row in zip(ids, said, strict=True)]
                outcomes = line.call_all(calls, self.terms)
            else:
                chunks = list(self._chunks(ids, said))
                found = line.call_all([chunk[:2] for chunk in chunks], self.terms)
                sizes = [size for _, _, size in chunks]
                outcomes = [
                    each for told, n in zip(found, sizes, strict=True) for each in _split(told, n)
                ]
            yield self._answered(batch, outcomes)

    def _ids(self, batch: pa.RecordBatch) -> list[str]:
        keys = arguments(batch.column(_KEY if _KEY in batch.schema.names else _SAID))
        return [row_id(self.run, self.terms.service, self.task, key) for key in keys]

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        return Call(self.task, args, kwargs, timeout=self.terms.timeout)

    def _chunks(self, ids: list[str], said: list[Any]) -> Iterator[tuple[str, Call, int]]:
        for at in range(0, len(ids), self.rows_per_call):
            rows = said[at : at + self.rows_per_call]
            yield chunk_id(ids[at : at + len(rows)]), self._call((rows,), {}), len(rows)

    def _answered(self, batch: pa.RecordBatch, outcomes: list[Any]) -> pa.RecordBatch:
        kept = [name for name in batch.schema.names if name not in (_SAID, _KEY)]
        answers = answer_column(outcomes, self.kind)
        return pa.RecordBatch.from_arrays(
            [*(batch.column(name) for name in kept), answers], names=[*kept, self.into]
        )


def _split(outcome: Any, rows: int) -> list[Any]:
    """Give each row of a chunk its own outcome."""
    if isinstance(outcome, list) and len(outcome) == rows:
        return outcome
    if not isinstance(outcome, Failure):
        words = f"{rows} rows were sent; a list of as many answers was expected"
        outcome = Failure(UNFIT, words, True)
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
    """Have a service answer every row; return the rows with a column of answers.

    An answer is a struct of `value` and `fault` (`code`, `message`, `definite`), one of which is
    null; every row has exactly one.

    Args:
        rows: Any frame.
        url: The broker, as executors reach it: `nfp://` or `http://`.
        service: Whom to ask.
        task: What to ask for.
        columns: Arguments by name: columns, or a mapping of names to columns or expressions. All
            columns if not given.
        key: Columns that tell one row from another. Without them a row is known by its arguments,
            and rows with equal arguments are one call.
        returns: Spark's type of the values, as in `double` or `struct<a: int, b: string>`. JSON
            text if not given.
        into: The name of the new column.
        run: What is one run, however often it is started: rows are answered once in each. Made up
            if not given, so that the frame that is returned is one run.
        timeout: Seconds from asking to the end of a job.
        window: Calls that wait for their answers at a time, in each of Spark's Python processes.
        retries: How often a call that surely did not run is made again.
        rows_per_call: More than 1: the task gets a list of so many rows (or fewer) as its only
            argument, and returns a list of as many answers.
        target: Whom it is for within the service.
        priority: Higher goes first among this client's jobs.
        at_least_once: Allow a dialect without idempotency keys, and so that a row may be run twice.
        credentials: Where *executors* find what they prove themselves with: the path of a file that
            each of them has, or `env:NAME`, a variable of theirs that names it. If not given,
            `DRAGOMAN_KEY_FILE`, where that is set. What is in it never leaves the executor.

    """
    dialect = parse_url(url).dialect
    if dialect not in KEYED and not at_least_once:
        raise ValueError(
            f"{dialect} carries no idempotency keys, so a task that Spark runs again may run rows "
            f"again; use nfp:// or http://, or allow it with at_least_once=True"
        )
    if rows_per_call < 1 or window < 1:
        raise ValueError("rows_per_call and window are at least 1")
    _check_names(rows.columns, into)
    kind = StringType() if returns is None else _data_type(returns)
    asking = ServiceCaller(
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
    return _prepared(rows, columns, key).mapInArrow(asking, schema)


def _check_names(names: list[str], into: str) -> None:
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"several columns are called {', '.join(sorted(twice))}; rename them")
    if into in names:
        raise ValueError(f"there is a column {into!r} already; choose another with into=")


def _data_type(said: str | DataType) -> DataType:
    return DataType.fromDDL(said) if isinstance(said, str) else said


def _prepared(
    rows: DataFrame,
    columns: Sequence[str] | Mapping[str, str | Column] | None,
    key: str | Sequence[str] | None,
) -> DataFrame:
    """Add what is to be said about each row, and what it is known by."""
    if not isinstance(columns, Mapping):
        columns = {name: name for name in (rows.columns if columns is None else columns)}
    said = [_column(each).alias(name) for name, each in columns.items()]
    if not said:
        raise ValueError("name at least one column to call the service with")
    more = [F.struct(*said).alias(_SAID)]
    if key is not None:
        names = [key] if isinstance(key, str) else list(key)
        more.append(F.struct(*[_column(name) for name in names]).alias(_KEY))
    return rows.select(*[_column(name) for name in rows.columns], *more)


def _column(said: str | Column) -> Column:
    return F.col(f"`{said.replace('`', '``')}`") if isinstance(said, str) else said
