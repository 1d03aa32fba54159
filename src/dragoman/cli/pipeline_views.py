"""`dragoman pipeline bill, forecast, notebook`: use, outlook, and a notebook over the tables."""

from datetime import datetime
from pathlib import Path

import typer

from dragoman.cli.output import print_rows
from dragoman.cli.pipeline_session import (
    AS_JSON,
    AS_OF,
    TABLES,
    open_queries,
    require_folder,
    spoken_errors,
    stop,
    write_file,
)

_DAY = ["%Y-%m-%d"]


def bill(
    tables: str = TABLES,
    as_of: str = AS_OF,
    out: Path | None = typer.Option(
        None, "--out", "-o", help="A .csv or .html file; default: CSV to the terminal."
    ),
    principal: str = typer.Option("", help="Only this principal."),
    since: datetime | None = typer.Option(None, formats=_DAY, help="The first day."),
    until: datetime | None = typer.Option(None, formats=_DAY, help="The last day."),
) -> None:
    """Write what each principal used, by service, as CSV or as a page."""
    if out is not None and out.suffix not in (".csv", ".html"):
        raise stop(f"{out} is neither a .csv nor a .html file; name one of these", 2)
    require_folder(out)
    days = (since.date() if since else None, until.date() if until else None)
    with open_queries(tables, as_of, "duckdb", ("local", "", "", [])) as found:
        from dragoman.pipeline.bill import bill_rows, to_csv, to_page

        rows = bill_rows(found, principal, *days)
    if out is None:
        typer.echo(to_csv(rows), nl=False)
        return
    text = to_csv(rows) if out.suffix == ".csv" else to_page(rows, *days)
    write_file(out, text)
    typer.echo(f"wrote {out}: {len(rows)} lines")


def forecast(
    tables: str = TABLES,
    as_of: str = AS_OF,
    with_builtin: bool = typer.Option(False, "--all", help="Also the broker's own services."),
    as_json: bool = AS_JSON,
) -> None:
    """Say when queues empty and when the load reaches the workers' capacity."""
    with open_queries(tables, as_of, "duckdb", ("local", "", "", [])) as found:
        from dragoman.pipeline.report import build_forecasts

        forecasts, over = build_forecasts(found, with_builtin=with_builtin)
    rows = [
        {
            "service": one.service,
            "waiting": one.queue.waiting,
            "queue": one.queue.words(over),
            "load": round(one.load.level, 3),
            "places": one.load.places,
            "outlook": one.load.words(over),
        }
        for one in forecasts
        if one.queue.is_used or one.load.level
    ]
    print_rows(rows, as_json, "no job came, left or waits")


def notebook(
    tables: str = TABLES,
    out: Path = typer.Option(Path("ledger.ipynb"), "--out", "-o", help="The file to write."),
) -> None:
    """Write a Jupyter notebook with the tables loaded and six questions answered."""
    require_folder(out)
    with spoken_errors():
        from dragoman.pipeline.notebook import build_notebook
        from dragoman.pipeline.snapshot import read_snapshot

        place = tables if "://" in tables else str(Path(tables).resolve())
        if not read_snapshot(place).version:
            raise stop(f"there are no tables at {tables}; run `dragoman pipeline run` first", 2)
        write_file(out, build_notebook(place))
        typer.echo(f"wrote {out}; open it with Jupyter where dragoman[spark] is installed")
