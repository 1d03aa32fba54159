"""`foreach_service`: the sink of a stream that hands every row to a service.

    stream.writeStream.option("checkpointLocation", path).foreachBatch(
        foreach_service(url, "mail", "send", run="welcome mails", key="customer")
    ).start()

A batch that Spark repeats after a crash has the same number and the same rows, so the same calls:
what was done is not done again.
"""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dragoman.spark.call import call_service

OnAnswers = Callable[[DataFrame, int], None]


class RowsFailed(Exception):
    """Some rows of a batch have faults. The batch is not committed."""


def foreach_service(
    url: str,
    service: str,
    task: str = "",
    *,
    run: str,
    on_answers: OnAnswers | None = None,
    **options: Any,
) -> Callable[[DataFrame, int], None]:
    """Make a function for `foreachBatch` that calls a service for every row.

    Without `on_answers`, a fault stops the stream with its batch not committed; started again, the
    stream asks for the same rows again, and those that were done are not done again. With
    it, the answered batch is handed over, to be stored, say, and faults are its business.

    Args:
        url: The broker, as executors reach it.
        service: Whom to ask.
        task: What to ask for.
        run: The name of the stream: with the batch's number and a row's key it makes the call.
        on_answers: Gets each batch with its answers, and the batch's number.
        **options: As for `call_service`.

    """

    def sink(rows: DataFrame, batch: int) -> None:
        answered = call_service(rows, url, service, task, run=f"{run}/{batch}", **options)
        if on_answers is None:
            _insist(answered, str(options.get("into", "answer")), batch)
            return
        answered.persist()
        try:
            on_answers(answered, batch)
        finally:
            answered.unpersist()

    return sink


def _insist(answered: DataFrame, into: str, batch: int) -> None:
    """Have every row answered, and raise if one was not answered well."""
    fault = F.col(f"`{into}`").fault
    found = (
        answered.groupBy(fault.code.alias("code"))
        .agg(F.count("*").alias("rows"), F.min(fault.message).alias("example"))
        .where(F.col("code").isNotNull())
        .collect()
    )
    if found:
        told = "; ".join(f"{row['rows']} {row['code']}: {row['example']}" for row in found)
        raise RowsFailed(f"batch {batch}: {told}")
