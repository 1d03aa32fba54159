"""A Jupyter notebook over the tables: they are loaded, and six questions are answered.

The file is plain JSON of notebook format 4, so that writing one needs no package of Jupyter.
"""

import json
from typing import Final

_LOAD: Final = """import pandas as pd
from dragoman.pipeline.embedded.queries import DuckQueries

tables = DuckQueries({root})

def ask(sql):
    return pd.DataFrame(tables.rows(sql))

print("records 1 to", tables.snapshot.seq)"""

#: Each question with the SQL that answers it.
QUESTIONS: Final = (
    (
        "Which services have the most jobs, and how many of them succeed?",
        """select service, count(*) as jobs,
       avg(case when state = 'succeeded' then 1.0 else 0.0 end) as succeeded
from jobs where ended_at is not null group by service order by jobs desc, service""",
    ),
    (
        "Which services are slow?",
        """select service, count(*) as jobs, median(run_us) / 1e6 as median_s,
       quantile_cont(run_us, 0.99) / 1e6 as p99_s
from jobs where started_at is not null group by service order by p99_s desc, service""",
    ),
    (
        "Who waits longest for a worker?",
        """select client, count(*) as jobs, median(queue_us) / 1e6 as median_wait_s,
       max(queue_us) / 1e6 as longest_wait_s
from jobs where queue_us is not null
group by client order by longest_wait_s desc, client limit 20""",
    ),
    (
        "Which workers are busy, and which lose work?",
        """select worker, sum(dispatched) as dispatched, sum(failed) as failed, sum(lost) as lost,
       sum(busy_us) / nullif(sum(connected_us), 0) as busy_share
from worker_days group by worker order by lost desc, failed desc, worker""",
    ),
    (
        "What did each principal use?",
        """select principal, sum(jobs) as jobs, sum(run_us) / 1e6 as run_s,
       sum(bill) / 1e6 as credits
from accounting group by principal order by credits desc, principal""",
    ),
    (
        "Was a promise broken?",
        """select rule, count(*) as breaches, min(words) as example
from audit group by rule order by rule""",
    ),
)


def build_notebook(root: str) -> str:
    """Return a notebook over the tables at a location."""
    cells = [
        _markdown(0, "# The ledger's tables\n\nMade by `dragoman pipeline notebook`."),
        _code(1, _LOAD.format(root=repr(root))),
    ]
    for number, (question, sql) in enumerate(QUESTIONS, 1):
        cells += [_markdown(2 * number, f"## {number}. {question}")]
        cells += [_code(2 * number + 1, f'ask("""\n{sql}\n""")')]
    page = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(page, indent=1) + "\n"


def _markdown(number: int, text: str) -> dict[str, object]:
    return {"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": text}


def _code(number: int, text: str) -> dict[str, object]:
    cell = {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "source": text}
    return cell | {"execution_count": None, "outputs": []}
