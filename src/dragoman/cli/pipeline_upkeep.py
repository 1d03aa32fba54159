"""`dragoman pipeline history, compact, vacuum`: steps and files of the tables, without Spark."""

import json

import typer

from dragoman.cli.output import print_rows
from dragoman.cli.pipeline_session import AS_JSON, TABLES, spoken_errors, stop
from dragoman.security.files import only_owner


def history(tables: str = TABLES, as_json: bool = AS_JSON) -> None:
    """List the steps that the tables were made in, the newest first; see `--as-of`."""
    with spoken_errors():
        from dragoman.pipeline.snapshot import history as steps_of

        steps = steps_of(tables)
    rows = [
        {
            "step": step.version,
            "records up to": step.seq,
            "committed at": f"{step.committed_at:%Y-%m-%d %H:%M:%S}",
            "by": step.operation,
        }
        for step in steps
    ]
    print_rows(rows, as_json, "no steps yet")


def compact(tables: str = TABLES, as_json: bool = AS_JSON) -> None:
    """Merge small files of the tables into larger ones; `run` and `stream` do it when many."""
    with spoken_errors():
        from dragoman.pipeline.maintenance import compact as compact_tables

        only_owner()
        _require_tables(tables)
        _print_counts(compact_tables(tables), as_json, "merged", "no small files to merge")


def vacuum(
    tables: str = TABLES,
    keep_hours: int = typer.Option(168, min=1, help="Keep the files of steps of these hours."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only count the files."),
    as_json: bool = AS_JSON,
) -> None:
    """Delete files that no kept step uses, also those of runs that were killed."""
    with spoken_errors():
        from dragoman.pipeline.maintenance import vacuum as vacuum_tables

        _require_tables(tables)
        found = vacuum_tables(tables, keep_hours, dry_run=dry_run)
        did = "would delete" if dry_run else "deleted"
        counts = {name: count for name, count in found.items() if count}
        _print_counts(counts, as_json, did, "no files to delete")


def _require_tables(tables: str) -> None:
    from dragoman.pipeline.snapshot import read_snapshot

    if not read_snapshot(tables).version:
        raise stop(f"there are no tables at {tables}; run `dragoman pipeline run` first", 2)


def _print_counts(counts: dict[str, int], as_json: bool, did: str, nothing: str) -> None:
    if as_json:
        typer.echo(json.dumps(counts))
    elif not counts:
        typer.echo(nothing)
    else:
        each = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
        typer.echo(f"{did} {sum(counts.values()):,} files: {each}")
