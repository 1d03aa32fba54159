"""Opening a Spark session: find Java, apply settings, start or join Spark."""

import os
import shutil
import socket
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dragoman.pipeline.quiet_start import quiet_start
from dragoman.pipeline.tuning import java_options

#: The oldest Java that Spark 4 runs on.
OLDEST_JAVA: Final = 17
INSTALL_JAVA: Final = "sudo apt-get install -y openjdk-17-jre-headless"

#: The port of an address without one, and the seconds to wait for a connection.
DEFAULT_CONNECT_PORT: Final = 15002
CONNECT_SECONDS: Final = 5.0

#: UTC, no web UI, small shuffles, timestamps that other Parquet readers understand.
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.python.filterPushdown.enabled": "true",
    # Recording call sites for error messages costs several calls into the JVM per expression.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # With few values of `day`, Spark need not sort before it writes the files.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # Sorted input is aggregated without a hash map that grows and spills.
    "spark.sql.execution.replaceHashWithSortAgg": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


class JavaMissing(RuntimeError):
    """No usable Java was found; the message has the command that installs one."""


class SparkNotStarted(RuntimeError):
    """Spark refused its master or its settings; the message names them."""


class SparkUnreachable(RuntimeError):
    """No Spark Connect server or master answers at the address."""


def java_command() -> str:
    """Return the Java that Spark starts: that of `JAVA_HOME`, or without it the one on the path."""
    if home := os.environ.get("JAVA_HOME"):
        named = Path(home, "bin", "java")
        if not named.is_file():
            raise JavaMissing(f"JAVA_HOME is {home}, which has no bin/java; correct it or unset it")
        return str(named)
    found = shutil.which("java")
    if found is None:
        raise JavaMissing(f"Spark needs Java {OLDEST_JAVA} or newer. Run: {INSTALL_JAVA}")
    return found


def java_version(text: str) -> int:
    """Parse the major version from the output of `java -version`; 0 if there is none."""
    quoted = text.partition('"')[2].partition('"')[0]
    numbers = [int(n) for n in quoted.replace("-", ".").split(".") if n.isdigit()]
    major = numbers[0] if numbers else 0
    return numbers[1] if major == 1 and len(numbers) > 1 else major


def ensure_java() -> str:
    """Return a usable Java, or raise `JavaMissing` with the command that installs one."""
    command = java_command()
    try:
        output = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise JavaMissing(f"{command} cannot be started: {error.strerror or error}") from None
    version = java_version(output.stderr + output.stdout)
    if version < OLDEST_JAVA:
        raise JavaMissing(
            f"{command} is Java {version or 'of an unknown version'}; Spark needs "
            f"{OLDEST_JAVA} or newer. Run: {INSTALL_JAVA}"
        )
    return command


def open_session(
    master: str = "local[*]",
    *,
    memory: str = "2g",
    remote: str | None = None,
    settings: dict[str, str] | None = None,
    rows: int | None = None,
) -> SparkSession:
    """Start or join the Spark session of the pipeline.

    Args:
        master: The Spark master: `local[*]`, `spark://host:7077`, `yarn`.
        memory: Heap of the driver, which in local mode also runs the tasks.
        remote: Address of a Spark Connect server (`sc://host:15002`), instead of a master.
        settings: Other Spark settings; they override ours.
        rows: The records that a run will read, if that is known: a JVM that starts is set for them.

    """
    chosen = SETTINGS | (settings or {})
    if remote is not None:
        return _remote(remote, chosen)
    ensure_java()
    _check_master(master)
    # By default Spark starts the `python3` of the path, which may lack pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().master(master).appName("dragoman")
    builder = builder.config("spark.driver.memory", memory)
    quiet = files("dragoman.pipeline").joinpath("log4j2.properties")
    builder = builder.config(
        "spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{quiet}"
    )
    if rows is not None and (options := java_options(rows)):
        builder = builder.config("spark.driver.defaultJavaOptions", options)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    for name, value in chosen.items():
        builder = builder.config(name, value)
    try:
        with quiet_start():
            return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise SparkNotStarted(
            f"Spark did not start with master {master!r} and memory {memory!r}: {_reason(error)}; "
            "correct --master, --memory or --conf"
        ) from None


def _reason(error: Exception) -> str:
    """Return the line that says most. If Java ended, it has said why on standard error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # py4j names the call first, then the exception after a colon.
    caused = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return next(iter(caused or lines), type(error).__name__).rstrip(".")


def _check_connect_server(address: str) -> None:
    """Raise SparkUnreachable if nothing listens at the address of a Connect server."""
    host, _, port = address.removeprefix("sc://").partition("/")[0].partition(":")
    if not (address.startswith("sc://") and host and (port.isdigit() or not port)):
        raise ValueError(f"{address!r} is no Spark Connect address; use sc://HOST:PORT")
    if obstacle := _obstacle(host, int(port or DEFAULT_CONNECT_PORT)):
        raise SparkUnreachable(f"no Spark Connect server answers at {address}: {obstacle}")


def _check_master(master: str) -> None:
    """Raise SparkUnreachable if nothing listens at any address of a standalone cluster."""
    if not master.startswith("spark://"):
        return
    obstacles = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        if not (host and port.isdigit()):
            raise ValueError(f"{master!r} is no Spark master; use spark://HOST:PORT")
        if not (obstacle := _obstacle(host, int(port))):
            return
        obstacles.append(obstacle)
    raise SparkUnreachable(f"no Spark master answers at {master}: {'; '.join(obstacles)}")


def _obstacle(host: str, port: int) -> str:
    """Try a port: Spark itself would retry for minutes without a word."""
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        return str(error)
    return ""


def _remote(address: str, settings: dict[str, str]) -> SparkSession:
    """Join a Connect server; it keeps its own static settings."""
    _check_connect_server(address)
    spark = SparkSession.Builder().remote(address).getOrCreate()
    for name, value in settings.items():
        if name.startswith("spark.sql.") and spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    return spark
