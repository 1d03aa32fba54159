"""Gold `slo`: each service against its objective by UTC day.

A job is good if it succeeded within `GOOD_WITHIN_US`. Cancelled jobs do not count. `burn_rate` is
the share of bad jobs divided by the share that the objective allows: at 1 the error budget lasts
exactly the window. `budget_left` is the unused share of the error budget over the last
`WINDOW_DAYS` days; below 0 the objective is missed.
"""

from datetime import date
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dragoman.pipeline.schema import cast_to, columns

TABLE: Final = "slo"
OBJECTIVE: Final = 0.99
GOOD_WITHIN_US: Final = 60_000_000
WINDOW_DAYS: Final = 30
SCHEMA: Final = columns("""
    service string
    objective double
    good bigint
    bad bigint
    burn_rate double
    window_good bigint
    window_bad bigint
    budget_left double
    day date
""")


def slo(ended: DataFrame, former: DataFrame, since: date) -> DataFrame:
    """Compute the days from `since` on.

    Args:
        ended: The jobs that ended on those days.
        former: The table's rows of the window before them.
        since: The first day.

    """
    is_good = (F.col("state") == "succeeded") & (F.col("total_us") <= GOOD_WITHIN_US)
    judged = ended.where(F.col("state") != "cancelled").groupBy("service", "day")
    days = judged.agg(F.count_if(is_good).alias("good"), F.count_if(~is_good).alias("bad"))
    days = days.unionByName(former.where(F.col("day") < F.lit(since)).select(*days.columns))
    number = F.datediff("day", F.lit(date(1970, 1, 1)))
    recent = Window.partitionBy("service").orderBy(number).rangeBetween(1 - WINDOW_DAYS, 0)
    rows = days.withColumns(
        {
            "window_good": F.sum("good").over(recent),
            "window_bad": F.sum("bad").over(recent),
        }
    )
    allowed = 1.0 - OBJECTIVE
    share = F.col("bad") / (F.col("good") + F.col("bad"))
    spent = F.col("window_bad") / (F.col("window_good") + F.col("window_bad"))
    rows = rows.withColumns(
        {
            "objective": F.lit(OBJECTIVE),
            "burn_rate": share / F.lit(allowed),
            "budget_left": F.lit(1.0) - spent / F.lit(allowed),
        }
    )
    return cast_to(rows.where(F.col("day") >= F.lit(since)), SCHEMA)
