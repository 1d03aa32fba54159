"""The bill: what each principal used, by service, over a range of days; as CSV and as a page."""

import csv
import io
from datetime import date
from typing import Final

from dragoman.pipeline.queries import Rows, TableQueries
from dragoman.pipeline.report_parts import sum_of, table

COLUMNS: Final = (
    "principal",
    "service",
    "jobs",
    "succeeded",
    "run_seconds",
    "request_bytes",
    "result_bytes",
    "credits",
)
_SUMS: Final = ("jobs", "succeeded", "run_us", "request_bytes", "result_bytes", "bill")
#: A spreadsheet would run a cell that begins with one of these.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Dragoman: bill</title><style>
:root {{ color-scheme: light dark }}
body {{ font:15px/1.5 system-ui, "DejaVu Sans", sans-serif; max-width:1040px; margin:28px auto }}
table {{ border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums }}
td, th {{ text-align:left; padding:4px 10px 4px 0; border-bottom:1px solid #8886 }}
</style></head><body><h1>Bill</h1><p>{period}. Total: {total:,.6f} credits.</p>{body}</body></html>
"""


def bill_rows(
    store: TableQueries,
    principal: str = "",
    since: date | None = None,
    until: date | None = None,
) -> Rows:
    """Return the usage by principal and service, of jobs that ended on these days.

    Args:
        store: The tables.
        principal: Only this one.
        since: The first day.
        until: The last day.

    """
    days = "true"
    if since:
        days += f" and day >= date '{since.isoformat()}'"
    if until:
        days += f" and day <= date '{until.isoformat()}'"
    sums = ", ".join(sum_of(name) for name in _SUMS)
    # Dates and names of columns only: nothing that a person typed is part of the query.
    found = store.rows(
        f"select principal, service, {sums} from accounting "  # nosec B608
        f"where {days} group by 1, 2 order by 1, 2"
    )
    return [_row(each) for each in found if not principal or each["principal"] == principal]


def _row(row: dict[str, object]) -> dict[str, object]:
    sums = {name: int(str(row[name] or 0)) for name in _SUMS}
    values = (
        row["principal"],
        row["service"],
        sums["jobs"],
        sums["succeeded"],
        sums["run_us"] / 1e6,
        sums["request_bytes"],
        sums["result_bytes"],
        sums["bill"] / 1e6,
    )
    return dict(zip(COLUMNS, values, strict=True))


def to_csv(rows: Rows) -> str:
    """Return the rows as CSV with a head line; names that look like formulas get a quote."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_harmless(row[name]) for name in COLUMNS] for row in rows)
    return out.getvalue()


def _harmless(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6f}"
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def to_page(rows: Rows, since: date | None = None, until: date | None = None) -> str:
    """Return the rows as one HTML page that loads nothing."""
    cells = [[_shown(row[name]) for name in COLUMNS] for row in rows]
    days = [f"from {since}" if since else "", f"to {until}" if until else ""]
    period = " ".join(["Jobs that ended", *(d for d in days if d)])
    total = sum(row["credits"] for row in rows)
    heads = [name.replace("_", " ") for name in COLUMNS]
    return _PAGE.format(period=period, total=total, body=table(heads, cells))


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.6f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
