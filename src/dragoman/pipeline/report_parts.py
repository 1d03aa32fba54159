"""What the sections of the report share: their form, HTML tables, and pieces of SQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from dragoman.pipeline.queries import Rows


@dataclass(frozen=True)
class ReportSection:
    """One chart with its title and a line of explanation."""

    title: str
    note: str
    body: str


class Select(Protocol):
    """Queries one table, without the broker's own services unless the reader wants them."""

    def __call__(self, select: str, name: str, where: str = "true", more: str = "") -> Rows:
        """Return the rows."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table; cells that begin with our own mark-up are not escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(cell: str) -> str:
    return cell if cell.startswith('<span class="') else escape(cell)


def coloured(text: str, is_good: bool) -> str:
    """Mark a cell as good or bad news."""
    return f'<span class="{"good" if is_good else "bad"}">{escape(text)}</span>'


def sum_of(name: str, alias: str = "") -> str:
    """Sum a column as a whole number."""
    return f"cast(sum({name}) as bigint) as {alias or name}"


def count_if(condition: str, alias: str) -> str:
    """Count the rows of a condition."""
    return f"cast(sum(case when {condition} then 1 else 0 end) as bigint) as {alias}"


def share_of(name: str, share: float) -> str:
    """Return a percentile of a column."""
    return f"percentile_cont({share}) within group (order by {name})"
