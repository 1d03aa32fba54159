"""`dragoman spark-worker`: one Spark session as a worker for clients of every dialect.

The command imports Spark when it runs, so that the other commands start fast and work without the
`spark` extra.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from dragoman.cli.output import URL
from dragoman.cli.up import start_logging
from dragoman.extras import explain_missing

if TYPE_CHECKING:
    from dragoman.spark.settings import Data, ResultsSection, SparkSettings

#: By the ending of a path.
_FORMATS: Final = {".csv": "csv", ".json": "json", ".jsonl": "json", ".orc": "orc", ".txt": "text"}


def spark_worker(
    url: str = URL,
    service: str = typer.Option("spark", help="The service name."),
    config: Path | None = typer.Option(
        None, "--config", "-c", help="A TOML file: data, pipelines, limits. See docs/spark.md."
    ),
    tables: str = typer.Option("", "--tables", "-t", help="The pipeline's tables."),
    table: list[str] = typer.Option(
        [], help="Files as a table, NAME=PATH (repeatable): Parquet, or CSV, JSON, ... by ending."
    ),
    results: str = typer.Option(
        "", help="Folder of the file service for large results, as in nf://drop/spark."
    ),
    results_folder: str = typer.Option(
        "", help="The same folder on this machine; without it, files are uploaded to the service."
    ),
    executor_key: str = typer.Option(
        "",
        help="Credentials of executors for steps that call services: a path on the executor,"
        " or env:NAME, a variable with the path. [DRAGOMAN_KEY_FILE, if it is set]",
    ),
    allow_writes: bool = typer.Option(False, help="Run any statement, not only queries."),
    files_url: str = typer.Option("", help="The file service's broker, if --url has no clients."),
    name: str | None = typer.Option(None, help="The worker's name; generated if not given."),
    concurrency: int = typer.Option(4, min=1, help="Jobs to run at the same time."),
    master: str = typer.Option(
        "local[*]",
        envvar="DRAGOMAN_SPARK_MASTER",
        help="Spark master: local[*], spark://host:7077.",
    ),
    memory: str = typer.Option("2g", help="Heap of the driver."),
    conf: list[str] = typer.Option([], "--conf", help="Any Spark setting, as name=value."),
    log_level: str = typer.Option("info", help="debug, info, warning or error."),
) -> None:
    """Run Spark as a worker: clients of every dialect send it SQL and run pipelines.

    Tasks: `sql` (query, args), `tables`, `describe` (table), `pipelines`, `run` (pipeline,
    parameters).

        dragoman spark-worker --tables dragoman-data/tables --table orders=data/orders
        dragoman call spark sql '{"query": "select count(*) from orders where day = :d",
                                  "args": {"d": "2026-01-05"}}'
    """
    settings = merged(config, tables, table, results, results_folder, allow_writes, executor_key)
    chosen = _chosen(settings, conf, memory)
    try:
        from dragoman.pipeline.session import JavaMissing, open_session
        from dragoman.spark.worker import make_worker
    except ModuleNotFoundError as error:
        raise ValueError(explain_missing(error, "`spark-worker`", "spark")) from None
    start_logging(log_level)
    try:
        spark = open_session(master, memory=memory, settings=chosen)
    except JavaMissing as error:
        raise ValueError(str(error)) from None
    try:
        worker, tasks = make_worker(
            url,
            service,
            spark,
            settings,
            name=name,
            concurrency=concurrency,
            files_url=files_url or None,
        )
        worker.run()
        tasks.close()
    finally:
        spark.stop()


def _chosen(settings: "SparkSettings", conf: list[str], memory: str) -> dict[str, str]:
    """Return the settings of the session. Raises ValueError."""
    from dragoman.spark.memory import spark_options

    if wrong := [pair for pair in conf if "=" not in pair]:
        raise ValueError(f"--conf takes name=value, not {wrong[0]!r}")
    return {
        # Small queries do not wait for large ones.
        "spark.scheduler.mode": "FAIR",
        **spark_options(memory, settings.limits.bytes),
        **dict(pair.split("=", 1) for pair in conf),
    }


def merged(
    config: Path | None,
    tables: str,
    table: list[str],
    results: str,
    results_folder: str,
    allow_writes: bool,
    executor_key: str = "",
) -> "SparkSettings":
    """Merge the file and the options; options win. Raises ValueError."""
    from dragoman.spark.settings import ResultsSection, SparkSettings, load, with_absolute_paths

    found = load(config) if config is not None else SparkSettings()
    options_given = SparkSettings(
        tables=tables,
        data=dict(_data(pair) for pair in table),
        results=ResultsSection(url=results, folder=results_folder),
    )
    options_given = with_absolute_paths(options_given, Path.cwd())
    return found.model_copy(
        update={
            "tables": options_given.tables or found.tables,
            "data": {**found.data, **options_given.data},
            "results": found.results.model_copy(update=_where(options_given.results))
            if results
            else found.results,
            "credentials": executor_key or found.credentials,
            "read_only": found.read_only and not allow_writes,
        }
    )


def _where(options_given: "ResultsSection") -> dict[str, str]:
    """Return the location of results; only the file sets how long they are kept."""
    return {"url": options_given.url, "folder": options_given.folder}


def _data(pair: str) -> "tuple[str, Data]":
    from dragoman.spark.settings import Data

    name, mark, path = pair.partition("=")
    if not mark or not name or not path:
        raise ValueError(f"--table takes NAME=PATH, not {pair!r}")
    form = _FORMATS.get(Path(path).suffix, "parquet")
    options = {"header": "true", "inferSchema": "true"} if form == "csv" else {}
    return name, Data.model_validate({"path": path, "format": form, "options": options})
