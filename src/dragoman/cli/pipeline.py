"""`dragoman pipeline`: tables, audits and reports from the ledger, on a laptop or a cluster.

Commands import Spark when they need it, so the rest of the command line starts fast and works
without the `spark` extra.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from dragoman.cli import pipeline_upkeep, pipeline_upload, pipeline_views
from dragoman.cli.pipeline_session import (
    AS_JSON,
    AS_OF,
    CONF,
    ENGINE,
    MASTER,
    MEMORY,
    REMOTE,
    SOURCE,
    TABLES,
    Pending,
    find_pending,
    is_local,
    open_queries,
    open_spark,
    open_tables,
    require_folder,
    spoken_errors,
    stop,
    write_file,
)
from dragoman.security.files import only_owner

if TYPE_CHECKING:
    from dragoman.pipeline.queries import TableQueries
    from dragoman.pipeline.run import RunSummary
    from dragoman.pipeline.snapshot import Snapshot

app = typer.Typer(
    no_args_is_help=True,
    help="Turn exported ledger segments into tables, audits, accounts and reports.",
)
for command in (pipeline_upkeep.history, pipeline_upkeep.compact, pipeline_upkeep.vacuum):
    app.command()(command)
app.command()(pipeline_upload.upload)
app.command()(pipeline_views.bill)
app.command()(pipeline_views.forecast)
app.command()(pipeline_views.notebook)

#: The stages of a run, for the progress bar.
_STAGES: Final = 13
_NO_CHECKPOINT: Final = (
    "--checkpoint is only for --engine spark. Without Spark a stream continues after the newest "
    "record in the tables and needs no offsets; leave the option out"
)


@app.command()
def run(
    source: str = SOURCE,
    tables: str = TABLES,
    then_audit: bool = typer.Option(False, "--audit", help="Then audit the tables; see `audit`."),
    then_report: Path | None = typer.Option(
        None, "--report", help="Then write a report to this file."
    ),
    engine: str = ENGINE,
    master: str = MASTER,
    remote: str = REMOTE,
    memory: str = MEMORY,
    conf: list[str] = CONF,
    as_json: bool = AS_JSON,
) -> None:
    """Read the new segments of the export and update all tables."""
    require_folder(then_report)
    may_be_local = is_local(engine, master, remote, conf)
    pending = find_pending(source, tables)
    if not pending.ranges:
        _print_nothing_new(pending.after, as_json)
    elif may_be_local and (engine == "duckdb" or _is_little(pending, tables)):
        _print_summary(_run_here(source, tables), as_json)
    else:
        options = (master, remote, memory, conf, source, tables)
        with open_spark(*options, rows=pending.records) as spark:
            from dragoman.pipeline.run import run as run_pipeline

            with _progress() as notice:
                done = run_pipeline(spark, source, tables, notice)
            _print_summary(done, as_json)
    if then_audit or then_report:
        with open_queries(tables, "", engine, (master, remote, memory, conf)) as found:
            is_clean = not then_audit or _print_audit(found, as_json)
            if then_report:
                _write_report(found, then_report)
        if not is_clean:
            raise typer.Exit(1)


def _is_little(pending: Pending, tables: str) -> bool:
    """Whether the step is small enough for one process."""
    with spoken_errors():
        from dragoman.pipeline.embedded.run import is_embedded

        return is_embedded(tables, pending.records)


def _run_here(source: str, tables: str) -> "RunSummary":
    """Run without Spark."""
    with spoken_errors(), _progress() as notice:
        from dragoman.pipeline.embedded.run import run_embedded

        only_owner()
        return run_embedded(source, tables, notice)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show a bar while a run goes on."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:16}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("start", total=_STAGES)
        yield lambda stage: bar.update(task, description=stage, advance=1)


def _print_nothing_new(seq: int, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"after": seq, "upto": seq, "records": 0, "segments": 0}))
    else:
        typer.echo(f"nothing new: the tables have every record up to {seq:,}")


def _print_summary(done: "RunSummary", as_json: bool) -> None:
    if as_json:
        values = {name: getattr(done, name) for name in ("after", "upto", "records", "segments")}
        values |= {"bytes": done.bytes, "seconds": round(done.seconds, 3), "rate": round(done.rate)}
        values["written"] = dict(sorted(done.written.items()))
        typer.echo(json.dumps(values))
    elif not done.segments:
        _print_nothing_new(done.upto, as_json)
    else:
        typer.echo(
            f"read records {done.after + 1:,} to {done.upto:,} from {done.segments} segment(s) "
            f"({done.bytes / 1e3:,.0f} kB) in {done.seconds:,.1f} s: {done.rate:,.0f} records/s"
        )
        rows = ", ".join(f"{table} {count:,}" for table, count in sorted(done.written.items()))
        typer.echo(f"wrote rows: {rows}")


@app.command()
def stream(
    source: str = SOURCE,
    tables: str = TABLES,
    checkpoint: str = typer.Option(
        "", help="Only with Spark: folder of its offsets; default: inside the tables."
    ),
    every: int = typer.Option(2, min=1, help="Seconds between looks for new segments."),
    once: bool = typer.Option(False, help="Stop after the current segments."),
    most_rows: int = typer.Option(
        0, min=0, help="Most records in one step. By default 2,000,000, or 500,000 without Spark."
    ),
    engine: str = ENGINE,
    master: str = MASTER,
    remote: str = REMOTE,
    memory: str = MEMORY,
    conf: list[str] = CONF,
) -> None:
    """Follow the export until stopped; a restart continues where it ended.

    With --engine auto this needs no Spark, unless a cluster or a Spark setting is named: a stream
    that is far behind takes several steps.
    """
    if is_local(engine, master, remote, conf):
        if checkpoint:
            raise stop(_NO_CHECKPOINT, 2)
        _follow_here(source, tables, None if once else every, most_rows)
        return
    with open_spark(master, remote, memory, conf, source, tables) as spark:
        from dragoman.pipeline.stream import MOST_ROWS
        from dragoman.pipeline.stream import stream as follow

        query = follow(
            spark,
            source,
            tables,
            checkpoint=checkpoint or None,
            every=None if once else every,
            most_rows=most_rows or MOST_ROWS,
            notice=_print_step,
        )
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
        except Exception as error:
            raise stop(_reason(error), 1) from None


def _follow_here(source: str, tables: str, every: int | None, most_rows: int) -> None:
    """Follow without Spark."""
    with spoken_errors():
        from dragoman.pipeline.embedded.run import MOST_NEW, follow

        only_owner()
        try:
            follow(source, tables, every=every, most_rows=most_rows or MOST_NEW, notice=_print_step)
        except KeyboardInterrupt:
            return


def _print_step(snapshot: "Snapshot") -> None:
    behind = time.time() - snapshot.horizon.timestamp() if snapshot.horizon else 0.0
    typer.echo(f"tables are at record {snapshot.seq:,}, which is {behind:,.1f} s old")


def _reason(error: Exception) -> str:
    """Extract our own message from the error of a stream."""
    lines = [line for line in str(error).splitlines() if "the tables are unchanged" in line]
    return lines[0].strip() if lines else str(error)


@app.command()
def audit(
    tables: str = TABLES,
    as_of: str = AS_OF,
    engine: str = ENGINE,
    master: str = MASTER,
    remote: str = REMOTE,
    memory: str = MEMORY,
    conf: list[str] = CONF,
    as_json: bool = AS_JSON,
) -> None:
    """List the breaches of promises in the ledger; exit code 1 if there are any."""
    with open_queries(tables, as_of, engine, (master, remote, memory, conf)) as found:
        is_clean = _print_audit(found, as_json)
    if not is_clean:
        raise typer.Exit(1)


def _print_audit(store: "TableQueries", as_json: bool) -> bool:
    """Print every breach with its proof; return whether there is none."""
    from dragoman.pipeline.queries import AUDIT

    found = store.rows(AUDIT)
    if as_json:
        typer.echo(json.dumps({"upto": store.snapshot.seq, "found": found}, default=str))
        return not found
    for row in found:
        proof = ", ".join(str(seq) for seq in row["seqs"])
        about = " ".join(row[n] for n in ("job", "worker") if row[n])
        typer.echo(f"{row['rule']}: {about} {row['words']} (records {proof})")
    count = "1 breach" if len(found) == 1 else f"{len(found)} breaches"
    verdict = count if found else "no breach found"
    typer.echo(f"records 1 to {store.snapshot.seq:,}: {verdict}")
    return not found


@app.command()
def report(
    tables: str = TABLES,
    as_of: str = AS_OF,
    out: Path = typer.Option(Path("report.html"), "--out", "-o", help="The file to write."),
    with_builtin: bool = typer.Option(
        False, "--all", help="Also the broker's own services and the questions to them."
    ),
    compare_hours: float | None = typer.Option(
        None, min=0.01, help="Compare so many hours with those before; default: halves."
    ),
    engine: str = ENGINE,
    master: str = MASTER,
    remote: str = REMOTE,
    memory: str = MEMORY,
    conf: list[str] = CONF,
) -> None:
    """Write a report as one HTML file that opens without a network."""
    require_folder(out)
    with open_queries(tables, as_of, engine, (master, remote, memory, conf)) as found:
        _write_report(found, out, with_builtin=with_builtin, compare_hours=compare_hours)


def _write_report(
    store: "TableQueries",
    out: Path,
    *,
    with_builtin: bool = False,
    compare_hours: float | None = None,
) -> None:
    from dragoman.pipeline.report import build_report

    page = build_report(store, with_builtin=with_builtin, compare_hours=compare_hours)
    write_file(out, page)
    typer.echo(f"wrote {out} ({len(page.encode()) / 1024:,.0f} KiB)")


@app.command()
def query(
    sql: str = typer.Argument(help="SQL over the tables: jobs, assignments, audit, ..."),
    tables: str = TABLES,
    as_of: str = AS_OF,
    limit: int = typer.Option(50, min=1, help="Most rows to print."),
    engine: str = typer.Option(
        "auto",
        help="The SQL of spark, or of duckdb (without Java). auto: Spark's; small tables need no "
        "Spark for what both languages answer alike.",
    ),
    master: str = MASTER,
    remote: str = REMOTE,
    memory: str = MEMORY,
    conf: list[str] = CONF,
    as_json: bool = AS_JSON,
) -> None:
    """Run an SQL query over the tables."""
    is_final = engine == "duckdb"
    may_be_here = is_final or (is_local(engine, master, remote, conf) and _is_easy(sql, tables))
    # What DuckDB refuses may be a word that only Spark knows: it has the last one.
    if may_be_here and _query_here(sql, tables, as_of, limit, as_json, is_final=is_final):
        return
    with open_spark(master, remote, memory, conf, tables) as spark:
        from pyspark.errors import PySparkException

        from dragoman.cli.output import print_rows
        from dragoman.pipeline.tables import register
        from dragoman.spark.error_text import explain

        register(open_tables(spark, tables, as_of))
        try:
            rows: list[dict[str, object]] = spark.sql(sql).limit(limit).toArrow().to_pylist()
        except PySparkException as error:
            raise stop(explain(error, sql), 2) from None
        plain = json.loads(json.dumps(rows, default=str))
        print_rows(plain, as_json, "no rows")


def _is_easy(sql: str, tables: str) -> bool:
    """Whether the tables are small, and DuckDB gives Spark's answer."""
    with spoken_errors():
        from dragoman.pipeline.embedded.run import MOST_RECENT
        from dragoman.pipeline.plain_sql import is_plain
        from dragoman.pipeline.snapshot import read_snapshot

        return is_plain(sql) and read_snapshot(tables).seq <= MOST_RECENT


def _query_here(
    sql: str, tables: str, as_of: str, limit: int, as_json: bool, *, is_final: bool
) -> bool:
    """Run a query in DuckDB's SQL; return whether that was possible."""
    from dragoman.cli.output import print_rows

    with open_queries(tables, as_of, "duckdb", ("local", "", "", [])) as found:
        import duckdb

        from dragoman.pipeline.embedded.queries import as_spark_shows, limited

        try:
            rows = found.rows(limited(sql, limit))
        except (duckdb.Error, ValueError) as error:
            if not is_final:
                return False
            raise stop(str(error), 2) from None
    plain = json.loads(json.dumps(as_spark_shows(rows), default=str))
    print_rows(plain, as_json, "no rows")
    return True


@app.command()
def synth(
    folder: Path = typer.Argument(help="The folder for segments and manifest.json."),
    events: int = typer.Option(100_000, min=1, help="Number of records."),
    seed: int = typer.Option(1, help="Random seed; the same seed gives the same ledger."),
    plant: list[str] = typer.Option([], help="Break this audit rule (repeatable); `all` for each."),
    rate: float = typer.Option(60.0, min=0.001, help="Average records per second."),
    segment_rows: int = typer.Option(250_000, min=1, help="Records per segment."),
    as_json: bool = AS_JSON,
) -> None:
    """Write a synthetic ledger; needs no Java."""
    from dragoman.pipeline.synth import synthesise
    from dragoman.pipeline.synth_plants import PLANTS

    plants = [*PLANTS] if plant == ["all"] else plant
    done = synthesise(folder, events, seed, plants, rate=rate, segment_rows=segment_rows)
    if as_json:
        typer.echo(json.dumps({"records": done.records, "bytes": done.bytes, "plants": plants}))
        return
    typer.echo(
        f"wrote {done.records:,} records in {done.segments} segments ({done.bytes / 1e6:,.1f} MB) "
        f"in {done.seconds:,.1f} s"
    )
