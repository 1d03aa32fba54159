"""`foreach_service`: a streaming sink that calls a service for every row.

    stream.writeStream.option("checkpointLocation", path).foreachBatch(
        foreach_service(url, "mail", "send", run="welcome mails", key="customer")
    ).start()

A batch that Spark repeats after a crash has the same number and the same rows, so the same job ids:
finished calls do not run again.
"""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dragoman.spark.call import call_service

OnAnswers = Callable[[DataFrame, int], None]


class RowsFailed(Exception):
    """Some rows of a batch have faults, and the batch is not committed."""


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

    Without `on_answers`, a fault stops the stream, and its batch is not committed. If the stream is
    started again, it calls for the same rows, and finished calls do not run again. With
    `on_answers`, that function gets the answered batch and handles its faults.

    Args:
        url: The broker, as executors reach it.
        service: The service to call.
        task: The task to call.
        run: The name of the stream. With the batch's number and a row's key it gives the job id.
        on_answers: Called with each answered batch and the batch's number.
        **options: As for `call_service`.

    """

    def sink(rows: DataFrame, batch: int) -> None:
        answered = call_service(rows, url, service, task, run=f"{run}/{batch}", **options)
        if on_answers is None:
            _raise_faults(answered, str(options.get("into", "answer")), batch)
            return
        answered.persist()
        try:
            on_answers(answered, batch)
        finally:
            answered.unpersist()

    return sink


def _raise_faults(answered: DataFrame, into: str, batch: int) -> None:
    """Call the service for every row; raise `RowsFailed` if a row has a fault."""
    fault = F.col(f"`{into}`").fault
    found = (
        answered.groupBy(fault.code.alias("code"))
        .agg(F.count("*").alias("rows"), F.min(fault.message).alias("example"))
        .where(F.col("code").isNotNull())
        .collect()
    )
    if found:
        faults = "; ".join(f"{row['rows']} {row['code']}: {row['example']}" for row in found)
        raise RowsFailed(f"batch {batch}: {faults}")
