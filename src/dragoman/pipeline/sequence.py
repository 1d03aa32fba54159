"""The check that every sequence number occurs exactly once: exact, in one pass over two columns.

Numbers are marked in words of 64 bits, so a gap and a repeat cannot cancel out, and counted in
blocks of 32,768 numbers. Only incomplete blocks are read again.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dragoman.pipeline.snapshot import instant

#: The numbers in one bitmap of Spark's bitmap functions; their numbering starts at 1.
BLOCK: Final = 32_768


@dataclass(frozen=True)
class SequenceBlock:
    """The counts of one block of sequence numbers."""

    number: int
    rows: int
    distinct: int


@dataclass(frozen=True)
class SequenceCheck:
    """The result of checking a batch of records."""

    first: int
    last: int
    rows: int
    earliest: datetime
    latest: datetime
    #: Blocks in which a number is missing or occurs twice.
    broken: tuple[int, ...]
    has_repeats: bool


def check_sequence(records: DataFrame, after: int, upto: int | None) -> SequenceCheck | None:
    """Check a batch that should hold every number in `after < seq <= upto`.

    Without `upto`, the range ends at the newest record of the batch.
    """
    number = F.bitmap_bucket_number(F.col("word") * 64 + 1)
    found = (
        _words(records)
        .groupBy(number.alias("number"))
        .agg(
            F.sum("rows").alias("rows"),
            F.sum(F.bit_count("bits")).alias("distinct"),
            *[F.min(name).alias(name) for name in ("first", "earliest")],
            *[F.max(name).alias(name) for name in ("last", "latest")],
        )
        .collect()
    )
    if not found:
        return None
    last = max(row.last for row in found)
    blocks = [SequenceBlock(row.number, row.rows, row.distinct) for row in found]
    return SequenceCheck(
        min(row.first for row in found),
        last,
        sum(block.rows for block in blocks),
        instant(min(row.earliest for row in found)),
        instant(max(row.latest for row in found)),
        broken_blocks(blocks, after, last if upto is None else upto),
        any(block.rows > block.distinct for block in blocks),
    )


def _words(records: DataFrame) -> DataFrame:
    """Mark 64 numbers in one word; Spark aggregates words without sorting, unlike whole bitmaps."""
    place = F.col("seq") - 1
    bit = F.expr("shiftleft(1L, cast((seq - 1) & 63 as int))")
    return records.groupBy(F.shiftright(place, 6).alias("word")).agg(
        F.count(F.lit(1)).alias("rows"),
        F.bit_or(bit).alias("bits"),
        F.min("seq").alias("first"),
        F.max("seq").alias("last"),
        F.unix_micros(F.min("at")).alias("earliest"),
        F.unix_micros(F.max("at")).alias("latest"),
    )


def broken_blocks(blocks: list[SequenceBlock], after: int, upto: int) -> tuple[int, ...]:
    """Return the blocks of a range that are incomplete or have repeats."""
    found = {block.number: block for block in blocks}
    wanted = range(block_of(after + 1), block_of(upto) + 1)
    return tuple(
        number
        for number in wanted
        if (block := found.get(number)) is None
        or not block.rows == block.distinct == _size(number, after, upto)
    )


def block_of(seq: int) -> int:
    """Return the block of a sequence number."""
    return (seq - 1) // BLOCK + 1


def _size(number: int, after: int, upto: int) -> int:
    """Count the numbers of a block that lie in the range."""
    first, last = (number - 1) * BLOCK + 1, number * BLOCK
    return min(last, upto) - max(first, after + 1) + 1


def missing(records: DataFrame, check: SequenceCheck, after: int, upto: int) -> DataFrame:
    """Return the numbers of the range without a record, as `seq`."""
    spark = records.sparkSession
    seqs = records.where(F.bitmap_bucket_number("seq").isin(*check.broken)).select("seq")
    ends = spark.createDataFrame([(e,) for e in edges(check.broken, after, upto)], "seq bigint")
    following = F.lead("seq").over(Window.orderBy("seq"))
    pairs = seqs.union(ends).distinct().select("seq", following.alias("following"))
    holes = pairs.where(F.col("following") > F.col("seq") + 1)
    return holes.select(F.explode(F.expr("sequence(seq + 1, following - 1)")).alias("seq"))


def edges(broken: tuple[int, ...], after: int, upto: int) -> list[int]:
    """Return the numbers next to each run of broken blocks; complete neighbours hold them."""
    before = [max(after, (n - 1) * BLOCK) for n in broken if n - 1 not in broken]
    behind = [min(upto + 1, n * BLOCK + 1) for n in broken if n + 1 not in broken]
    return sorted({*before, *behind})


def repeated(records: DataFrame, check: SequenceCheck) -> DataFrame:
    """Return the numbers of more than one record, with the count and the first instant."""
    seen = records.where(F.bitmap_bucket_number("seq").isin(*check.broken)).groupBy("seq")
    counted = seen.agg(F.count(F.lit(1)).alias("times"), F.min("at").alias("at"))
    return counted.where(F.col("times") > 1)
