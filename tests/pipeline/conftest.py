"""One Spark session for the whole suite, and one synthetic ledger with its tables."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dragoman.pipeline.run import run
from dragoman.pipeline.session import open_session
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.synth import synthesise
from dragoman.pipeline.synth_plants import PLANTS

#: Small data: compiling a plan would take longer than running it.
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # As a Spark worker runs: a task without memory fails alone.
    "spark.executor.killOnFatalError.depth": "0",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("local[2]", memory="1g", settings=SMALL)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with every fault planted once, in four segments."""
    folder = tmp_path_factory.mktemp("planted")
    synthesise(folder, 6_000, seed=5, plants=[*PLANTS], segment_rows=1_500)
    assert len(json.loads((folder / "manifest.json").read_text())["segments"]) == 4
    return folder


@pytest.fixture(scope="session")
def tables(
    spark: SparkSession, planted: Path, tmp_path_factory: pytest.TempPathFactory
) -> TableStore:
    """The tables of that ledger, made by one batch run."""
    root = str(tmp_path_factory.mktemp("tables"))
    run(spark, str(planted), root)
    return TableStore(spark, root)
