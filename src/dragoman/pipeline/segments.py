"""Reading an export with Spark: the manifest, the checks of the files' bytes, the records.

Works on anything Spark can read: a folder, `hdfs://`, `s3a://`. Nothing is read before every
file that is needed has been found whole.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dragoman.pipeline.manifest import (
    ExportedSegment,
    SegmentDamaged,
    SegmentMissing,
    SegmentRange,
    parse_manifest,
)
from dragoman.pipeline.schema import RECORD


def read_manifest(spark: SparkSession, source: str) -> tuple[ExportedSegment, ...]:
    """Return the segments that the exporter says are there."""
    path = f"{source.rstrip('/')}/manifest.json"
    try:
        rows = spark.read.text(path, wholetext=True).collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise FileNotFoundError(
            f"there is no manifest at {path}; export the ledger first"
        ) from error
    return parse_manifest(rows[0][0])


def check_files(spark: SparkSession, source: str, pieces: Sequence[SegmentRange]) -> None:
    """Compare size and fingerprint of every segment's file with what the manifest says."""
    paths = [_path(source, piece) for piece in pieces]
    try:
        files = spark.read.format("binaryFile").load(paths)
        seen = files.select("path", "length", F.sha2("content", 256).alias("sha256")).collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise _missing(pieces, str(error)) from error
    found = {row.path.rpartition("/")[2]: row for row in seen}
    for piece in pieces:
        segment = piece.segment
        row = found.get(segment.file.rpartition("/")[2])
        if row is None:
            raise SegmentMissing(f"{segment.file} is gone", segment.first, segment.last)
        if row.length != segment.bytes or row.sha256 != segment.sha256:
            words = f"{segment.file} is not what was exported"
            raise SegmentDamaged(words, segment.first, segment.last)


def _missing(pieces: Sequence[SegmentRange], words: str) -> SegmentMissing:
    """Name the segment whose file Spark did not find."""
    gone = next((p.segment for p in pieces if p.segment.file in words), pieces[0].segment)
    return SegmentMissing(f"{gone.file} is gone", gone.first, gone.last)


def read_records(spark: SparkSession, source: str, pieces: Sequence[SegmentRange]) -> DataFrame:
    """Return the records of some segments; rows of older versions get nulls for what they lack."""
    reader = spark.read.schema(RECORD)
    whole = [_path(source, p) for p in pieces if p.after < p.segment.first]
    found = [reader.parquet(*whole)] if whole else []
    found += [
        reader.parquet(_path(source, p)).where(F.col("seq") > p.after)
        for p in pieces
        if p.after >= p.segment.first
    ]
    return reduce(DataFrame.unionAll, found)


def _path(source: str, piece: SegmentRange) -> str:
    return f"{source.rstrip('/')}/{piece.segment.file}"
