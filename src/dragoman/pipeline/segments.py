"""Reading an export with Spark: the manifest, the check of the files, the records.

Works on any storage that Spark can read: a folder, `hdfs://`, `s3a://`. All files are checked
before the first record is read.
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
    """Return the segments of the manifest."""
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


def check_files(spark: SparkSession, source: str, ranges: Sequence[SegmentRange]) -> None:
    """Compare size and SHA-256 of each segment's file with the manifest."""
    paths = [_path(source, each) for each in ranges]
    try:
        files = spark.read.format("binaryFile").load(paths)
        seen = files.select("path", "length", F.sha2("content", 256).alias("sha256")).collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise _missing(ranges, str(error)) from error
    found = {row.path.rpartition("/")[2]: row for row in seen}
    for each in ranges:
        segment = each.segment
        row = found.get(segment.file.rpartition("/")[2])
        if row is None:
            raise SegmentMissing(f"{segment.file} does not exist", segment.first, segment.last)
        if row.length != segment.bytes or row.sha256 != segment.sha256:
            reason = f"{segment.file} differs from the manifest"
            raise SegmentDamaged(reason, segment.first, segment.last)


def _missing(ranges: Sequence[SegmentRange], message: str) -> SegmentMissing:
    """Find the segment whose file Spark did not find."""
    gone = next((p.segment for p in ranges if p.segment.file in message), ranges[0].segment)
    return SegmentMissing(f"{gone.file} does not exist", gone.first, gone.last)


def read_records(spark: SparkSession, source: str, ranges: Sequence[SegmentRange]) -> DataFrame:
    """Return the records of some segments; columns that an older version lacks are null."""
    reader = spark.read.schema(RECORD)
    whole = [_path(source, p) for p in ranges if p.after < p.segment.first]
    found = [reader.parquet(*whole)] if whole else []
    found += [
        reader.parquet(_path(source, p)).where(F.col("seq") > p.after)
        for p in ranges
        if p.after >= p.segment.first
    ]
    return reduce(DataFrame.unionAll, found)


def _path(source: str, each: SegmentRange) -> str:
    return f"{source.rstrip('/')}/{each.segment.file}"
