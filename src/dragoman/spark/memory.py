"""Bounds the memory of one query: its constants, its results, and what its tasks allocate.

The heap of the driver is the outer bound. Within it a query must not harm others:

- Spark computes constant expressions before it runs the query, and then copies them in threads
  whose failure stops every query. So a query with a large constant is refused before it runs.
- A task that gets no memory fails, and with it the query. By default the whole JVM would exit.
- Spark stops a result above a share of the heap.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame

from dragoman.spark.plans import items, nodes

#: Share of the heap that one result may take; the driver holds several copies of it.
_RESULT_SHARE: Final = 8
_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE: Final = re.compile(r"(\d+)([kmgt]?)b?")


class QueryTooLarge(Exception):
    """The query needs more memory than one query may have."""


def spark_options(memory: str, result_bytes: int) -> dict[str, str]:
    """Return the session's options for a driver with this heap. Raises ValueError."""
    most = min(2 * result_bytes, heap_bytes(memory) // _RESULT_SHARE)
    return {
        # Spark stops a result that is too large to return, before it is all in memory.
        "spark.driver.maxResultSize": str(most),
        # A task that finds no memory fails alone. Otherwise the JVM exits, with all queries.
        "spark.executor.killOnFatalError.depth": "0",
    }


def heap_bytes(memory: str) -> int:
    """Return the bytes of a size as Java writes it, such as `2g`. Raises ValueError."""
    found = _SIZE.fullmatch(memory.strip().lower())
    if found is None:
        raise ValueError(f"{memory!r} is no size of memory; write it as 512m or 2g")
    return int(found[1]) * _UNITS[found[2]]


def check_constants(rows: DataFrame, most: int) -> None:
    """Let Spark optimise a query, and raise `QueryTooLarge` if a constant of it is too large."""
    plan = rows._jdf.queryExecution().optimizedPlan()
    jvm: Any = rows.sparkSession._jvm
    estimate = jvm.org.apache.spark.util.SizeEstimator.estimate
    for constant in _constants(plan):
        size = estimate(constant)
        if size > most:
            raise QueryTooLarge(
                f"a constant of the query has {size:,} bytes, and {most:,} are allowed; "
                "compute large values from columns, or make them smaller"
            )


def _constants(plan: object) -> Iterator[object]:
    """Yield the literals and the inline rows of a plan."""
    for node in nodes(plan):
        if node.nodeName() == "LocalRelation":
            yield node.data()
        for expression in items(node.expressions()):
            yield from _literals(expression)


def _literals(expression: Any) -> Iterator[object]:
    # Other leaves are columns, whose objects reach the whole session.
    if expression.nodeName() == "Literal":
        yield expression
    for child in items(expression.children()):
        yield from _literals(child)
