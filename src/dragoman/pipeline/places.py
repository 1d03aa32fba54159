"""Where Spark finds the files of an export or of tables: there, or in copies on this machine.

PySpark from PyPI has no jar for object stores, but pyarrow reaches them. So a Spark on one machine
works on copies in a temporary folder: files are fetched before they are read, and sent after they
were written. Files of segments and tables never change, so a copy stays true.
"""

import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from dragoman.pipeline.storage import join, make_parent, open_filesystem, plain_uri, spark_uri

#: Settings by which a user gives Spark more jars, and the names of those for object stores.
_MORE_JARS: Final = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_CONNECTORS: Final = ("hadoop-aws*.jar", "gcs-connector*.jar")
_OBJECT_STORES: Final = ("s3://", "gs://")
#: Files that are copied at a time.
_AT_ONCE: Final = 4
NO_JAR: Final = (
    "Spark on a cluster cannot use {}: PySpark from PyPI has no jar for object storage. Add it: "
    "`--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION`. Or use one machine: "
    "`--engine duckdb`, or Spark without `--master`"
)


class StorageUnreachable(RuntimeError):
    """Spark has no way to the storage; the message says what to do."""


class SparkPlace:
    """A location that Spark reads and writes by itself."""

    def __init__(self, uri: str) -> None:
        #: The location as Spark names it.
        self.base = spark_uri(uri)

    def fetch(self, names: Iterable[str]) -> None:
        """Make files readable for Spark."""

    def send(self, folder: str) -> None:
        """Store what Spark wrote into a folder."""

    def keep(self, names: Iterable[str]) -> None:
        """Forget the copies of all other files."""


class CopiedPlace(SparkPlace):
    """A location on object storage, with copies in a folder that ends with the process."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self.base = tempfile.mkdtemp(prefix="dragoman-spark-")
        weakref.finalize(self, shutil.rmtree, self.base, ignore_errors=True)

    def fetch(self, names: Iterable[str]) -> None:
        """Copy files from the storage, unless they are here."""
        with ThreadPoolExecutor(_AT_ONCE, "dragoman-fetch") as pool:
            for _ in pool.map(self._fetch, names):
                pass

    def _fetch(self, name: str) -> None:
        target = Path(self.base, name)
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        # Two threads may fetch the same file. The dot hides the unfinished one from Spark.
        fresh = target.with_name(f".{uuid.uuid4().hex}.part")
        system, path = open_filesystem(join(self._uri, name))
        with system.open_input_stream(path) as source, fresh.open("wb") as copy:
            shutil.copyfileobj(source, copy)
        fresh.replace(target)

    def send(self, folder: str) -> None:
        """Copy the Parquet files of a folder to the storage."""
        names = [p.relative_to(self.base) for p in Path(self.base, folder).rglob("*.parquet")]
        with ThreadPoolExecutor(_AT_ONCE, "dragoman-send") as pool:
            for _ in pool.map(self._send, names):
                pass

    def _send(self, name: Path) -> None:
        system, path = open_filesystem(join(self._uri, name.as_posix()))
        make_parent(system, path)
        with Path(self.base, name).open("rb") as source, system.open_output_stream(path) as copy:
            shutil.copyfileobj(source, copy)

    def keep(self, names: Iterable[str]) -> None:
        """Delete the copies of all other files."""
        wanted = {Path(self.base, name) for name in names}
        for path in Path(self.base).rglob("*.parquet"):
            if path not in wanted:
                path.unlink(missing_ok=True)


def place_of(spark: SparkSession, uri: str) -> SparkPlace:
    """Return how Spark reaches a location; raises `StorageUnreachable` if it cannot."""
    # A Connect server has jars and credentials of its own.
    if not is_object_store(uri) or "connect" in type(spark).__module__:
        return SparkPlace(uri)
    context = spark.sparkContext
    if needs_copies(uri, context.master or "", dict(context.getConf().getAll())):
        return _copied(plain_uri(uri).rstrip("/"))
    return SparkPlace(uri)


def needs_copies(uri: str, master: str, settings: Mapping[str, str]) -> bool:
    """Whether Spark works on copies; raises `StorageUnreachable` if a cluster would have to."""
    if not is_object_store(uri) or _has_connector(settings):
        return False
    if not master.startswith("local"):
        raise StorageUnreachable(NO_JAR.format(uri))
    return True


def is_object_store(uri: str) -> bool:
    """Whether a location is on a storage that PySpark from PyPI does not know."""
    return plain_uri(uri).startswith(_OBJECT_STORES)


def _has_connector(settings: Mapping[str, str]) -> bool:
    """Whether Spark has a jar for object stores, or others that may be it."""
    if any(settings.get(name) for name in _MORE_JARS):
        return True
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    return any(True for name in _CONNECTORS for _ in Path(home, "jars").glob(name))


@cache
def _copied(uri: str) -> CopiedPlace:
    """Return the copies of a location: all steps of a process share them."""
    return CopiedPlace(uri)
