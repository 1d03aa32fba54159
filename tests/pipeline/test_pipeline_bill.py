import csv
from datetime import date
from typing import Any

from dragoman.pipeline.bill import COLUMNS, bill_rows, to_csv, to_page
from dragoman.pipeline.queries import Rows
from dragoman.pipeline.snapshot import Snapshot


class Asked:
    """Tables that answer with fixed rows and keep the question."""

    snapshot = Snapshot()

    def __init__(self, *found: dict[str, Any]) -> None:
        self.found = [*found]
        self.sql = ""

    def rows(self, sql: str) -> Rows:
        self.sql = sql
        return self.found


def used(principal: str, bill: int) -> dict[str, Any]:
    sums = {"jobs": 3, "succeeded": 2, "run_us": 1_500_000, "request_bytes": 1, "result_bytes": 2}
    return {"principal": principal, "service": "math"} | sums | {"bill": bill}


def test_a_line_has_seconds_and_credits() -> None:
    text = to_csv(bill_rows(Asked(used("anna", 48_323))))
    line = ["anna", "math", "3", "2", "1.500000", "1", "2", "0.048323"]
    assert [*csv.reader(text.splitlines())] == [[*COLUMNS], line]


def test_a_bill_is_of_one_principal_and_of_some_days() -> None:
    store = Asked(used("anna", 1), used("bert", 2))
    rows = bill_rows(store, "bert", date(2026, 1, 5), date(2026, 1, 6))
    assert [row["principal"] for row in rows] == ["bert"]
    assert "day >= date '2026-01-05' and day <= date '2026-01-06'" in store.sql


def test_a_name_never_becomes_a_formula_or_mark_up() -> None:
    rows = bill_rows(Asked(used("=1+2", 1), used("<b>", 2_000_000)))
    assert "\n'=1+2," in to_csv(rows)
    page = to_page(rows, date(2026, 1, 5))
    assert "&lt;b&gt;" in page
    assert "from 2026-01-05. Total: 2.000001 credits" in page
