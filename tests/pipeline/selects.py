"""The tables of a small ledger, as the sections of a report query them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.pipeline.records import History, export

from dragoman.pipeline.embedded.queries import DuckQueries
from dragoman.pipeline.embedded.run import run_embedded
from dragoman.pipeline.queries import Rows, TableQueries
from dragoman.pipeline.report_parts import Select


def select_from(found: TableQueries) -> Select:
    """Return the queries of one table, of every service."""

    def select(select: str, name: str, where: str = "true", more: str = "") -> Rows:
        return found.rows(f"select {select} from {name} where {where} {more}")

    return select


@contextmanager
def tables(folder: Path, history: History) -> Iterator[Select]:
    """Make the tables of a history with DuckDB."""
    source = export(folder / "export", history.records)
    run_embedded(source, str(folder / "tables"))
    with DuckQueries(str(folder / "tables")) as found:
        yield select_from(found)
