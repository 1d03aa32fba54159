"""What the pipeline's commands share: options, the Spark session, errors in one sentence.

Spark is imported when a session is opened, so that the rest of the command line starts fast and
works without the `spark` extra.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from dragoman.extras import explain_missing
from dragoman.security.files import only_owner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dragoman.pipeline.manifest import SegmentRange
    from dragoman.pipeline.queries import TableQueries
    from dragoman.pipeline.store import TableStore

SOURCE: str = typer.Option(
    "dragoman-data/sealed", "--source", "-s", help="The export: a folder or URL with manifest.json."
)
TABLES: str = typer.Option(
    "dragoman-data/tables", "--tables", "-t", help="The folder or URL of the tables."
)
MASTER: str = typer.Option(
    "local[*]", envvar="DRAGOMAN_SPARK_MASTER", help="Spark master: local[*], spark://host:7077."
)
REMOTE: str = typer.Option("", help="A Spark Connect server instead of a master: sc://host:15002.")
MEMORY: str = typer.Option("2g", help="Heap of the Spark driver.")
CONF: list[str] = typer.Option([], "--conf", help="Any Spark setting, as name=value.")
ENGINE: str = typer.Option(
    "auto",
    help="duckdb: in this process, without Java. spark: for large ledgers and clusters. "
    "auto: duckdb while little is new and no cluster is named.",
)
AS_JSON: bool = typer.Option(False, "--json", help="Print JSON.")
AS_OF: str = typer.Option(
    "", "--as-of", help="The tables as of a record number or an instant (ISO 8601, UTC)."
)

_NO_TABLES: Final = "there are no tables at {}; run `dragoman pipeline run` first"
_DISK_FULL: Final = "No space left on device"
#: Spark's words for a file system whose jar is missing.
_NO_JAR: Final = re.compile(r"No FileSystem for scheme|Class [\w.]+FileSystem not found")
_WITHOUT_JAR: Final = (
    "Spark cannot use this storage: PySpark from PyPI has no jar for it. Use `--engine duckdb`, or "
    "add the jar: `--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION`"
)
#: The code of S3: delta-rs shows the answer as XML, pyarrow the name of its SDK.
_S3_CODE: Final = re.compile(r"<Code>(?P<xml>\w+)</Code>|AWS Error (?P<sdk>(?!NETWORK)\w+)")
_DRAWN: Final = re.compile(r"\x1b\[\d+m|\u21b3")
_LOOK_AT: Final = "look at the bucket, AWS_ENDPOINT_URL, AWS_REGION and the credentials"
_FULL: Final = (
    "no space is left for the tables or for Spark's temporary files; the tables are unchanged. "
    "Free some space (`dragoman pipeline vacuum` deletes old files), then run this again"
)


def stop(message: str, code: int) -> typer.Exit:
    """Print an error; return the exit to raise."""
    typer.echo(f"dragoman: {message}", err=True)
    return typer.Exit(code)


@dataclass(frozen=True)
class Pending:
    """What a run would read; known without Spark."""

    #: The newest record in the tables, and in the export.
    after: int
    upto: int
    ranges: "tuple[SegmentRange, ...]"

    @property
    def records(self) -> int:
        """The number of new records."""
        return self.upto - self.after


def require_folder(out: Path | None) -> None:
    """Exit, before any work, if a file cannot be written because its folder is missing."""
    if out is None:
        return
    if out.is_dir():
        raise stop(f"{out} is a folder; name a file", 2)
    if not out.parent.is_dir():
        raise stop(f"cannot write {out}: there is no folder {out.parent}; make it first", 2)


def write_file(out: Path, text: str) -> None:
    """Write a file whole, or leave the old one and exit with the reason."""
    from dragoman.pipeline.storage import write_bytes

    try:
        write_bytes(str(out), text.encode())
    except OSError as error:
        raise stop(f"cannot write {out}: {error.strerror or error}", 1) from None


def is_local(engine: str, master: str, remote: str, conf: list[str]) -> bool:
    """Whether a command may do without Spark: it is asked for, or no cluster or setting is named.

    Exits if there is no such engine.
    """
    if engine not in ("auto", "duckdb", "spark"):
        raise stop(f"there is no engine {engine!r}; choose auto, duckdb or spark", 2)
    is_cluster = bool(remote or conf) or not master.startswith("local")
    return engine == "duckdb" or (engine == "auto" and not is_cluster)


def find_pending(source: str, tables: str) -> Pending:
    """Compare the export with the tables."""
    with spoken_errors():
        from dragoman.pipeline.export import Export
        from dragoman.pipeline.same_ledger import new_ranges
        from dragoman.pipeline.snapshot import read_snapshot

        former = read_snapshot(tables)
        after, ranges = former.seq, tuple(new_ranges(Export(source), tables, former))
        return Pending(after, ranges[-1].last if ranges else after, ranges)


@contextmanager
def spoken_errors() -> Iterator[None]:
    """Turn the errors that a person can act on into one sentence and an exit code."""
    try:
        from dragoman.pipeline.delta import ConcurrentWriter, TablesDamaged
        from dragoman.pipeline.manifest import ManifestDamaged, OtherLedger, SegmentError
        from dragoman.pipeline.snapshot import StepNotFound, TablesOutdated
    except ModuleNotFoundError as error:
        raise stop(explain_missing(error, "the pipeline", "spark"), 2) from None
    try:
        yield
    except (SegmentError, ManifestDamaged, TablesDamaged, ConcurrentWriter) as error:
        raise stop(str(error), 1) from None
    except (
        OtherLedger,
        TablesOutdated,
        StepNotFound,
        FileNotFoundError,
        NotADirectoryError,
    ) as error:
        raise stop(str(error), 2) from None
    except typer.Exit:
        raise
    except Exception as error:
        is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        if is_full or _DISK_FULL in str(error):
            raise stop(_FULL, 1) from None
        if _NO_JAR.search(str(error)):
            raise stop(_WITHOUT_JAR, 2) from None
        if reason := storage_reason(error):
            raise stop(f"cannot use the object storage: {reason}; {_LOOK_AT}", 3) from None
        raise


def storage_reason(error: Exception) -> str:
    """Return why an object store refused a request; empty if the error is none of its errors."""
    text = str(error)
    if "Generic S3 error" not in text and "AWS Error" not in text:
        return ""
    if code := _S3_CODE.search(text):
        return f"it answered {code['xml'] or code['sdk']}"
    # delta-rs draws its causes as a tree, in colours; the last one is the reason.
    lines = [line for line in _DRAWN.sub("", text).splitlines() if line.strip()]
    return f"no answer ({lines[-1].rpartition(': ')[2].strip()})"


@contextmanager
def open_spark(
    master: str,
    remote: str,
    memory: str,
    conf: list[str],
    *places: str,
    rows: int | None = None,
) -> "Iterator[SparkSession]":
    """Open a Spark session for work on some locations; print the error and exit if that fails."""
    with spoken_errors():
        from dragoman.pipeline.session import (
            JavaMissing,
            SparkNotStarted,
            SparkUnreachable,
            open_session,
        )

        # Tables hold what the ledger holds; Spark's own processes inherit this.
        only_owner()
        settings = dict(map(_setting, conf))
        if not remote:
            _require_storage(places, master, settings)
        try:
            spark = open_session(
                master, memory=memory, remote=remote or None, settings=settings, rows=rows
            )
        except (JavaMissing, SparkNotStarted) as error:
            raise stop(str(error), 2) from None
        except SparkUnreachable as error:
            raise stop(str(error), 3) from None
        try:
            yield spark
        finally:
            spark.stop()


def _setting(pair: str) -> tuple[str, str]:
    name, equals, given = pair.partition("=")
    if not (name and equals):
        raise stop(f"--conf {pair!r} is not name=value, such as spark.executor.memory=4g", 2)
    return name, given


def _require_storage(places: tuple[str, ...], master: str, settings: dict[str, str]) -> None:
    """Exit before Spark starts, if it could not reach a location."""
    from dragoman.pipeline.places import StorageUnreachable, needs_copies

    try:
        for place in places:
            needs_copies(place, master, settings)
    except StorageUnreachable as error:
        raise stop(str(error), 2) from None


@contextmanager
def open_queries(
    tables: str,
    as_of: str,
    engine: str,
    spark_options: "tuple[str, str, str, list[str]]",
) -> "Iterator[TableQueries]":
    """Open existing tables for queries; exit if there are none."""
    master, remote, memory, conf = spark_options
    if not is_local(engine, master, remote, conf):
        with open_spark(master, remote, memory, conf, tables) as spark:
            from dragoman.pipeline.queries import SparkQueries

            yield SparkQueries(open_tables(spark, tables, as_of))
        return
    with spoken_errors():
        from dragoman.pipeline.embedded.queries import DuckQueries
        from dragoman.pipeline.snapshot import find_step

        found = DuckQueries(tables, find_step(tables, as_of) if as_of else None)
        if not found.snapshot.version:
            raise stop(_NO_TABLES.format(tables), 2)
        with found:
            yield found


def open_tables(spark: "SparkSession", tables: str, as_of: str = "") -> "TableStore":
    """Open existing tables; exit if there are none."""
    from dragoman.pipeline.snapshot import find_step
    from dragoman.pipeline.store import TableStore
    from dragoman.pipeline.tuning import set_tuning

    store = TableStore(spark, tables, find_step(tables, as_of) if as_of else None)
    if not store.snapshot.version:
        raise stop(_NO_TABLES.format(tables), 2)
    set_tuning(spark, store.snapshot.seq)
    return store
