from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import NOON, frame, rows

from dragoman.model.record import Record
from dragoman.pipeline.events import SCHEMA, events, without_repeats
from dragoman.pipeline.sequence import (
    BLOCK,
    SequenceBlock,
    block_of,
    broken_blocks,
    check_sequence,
    edges,
    missing,
    repeated,
)


def test_blocks_are_numbered_as_spark_numbers_them() -> None:
    assert [block_of(seq) for seq in (1, BLOCK, BLOCK + 1)] == [1, 1, 2]


def test_a_whole_range_has_no_broken_block() -> None:
    whole = [SequenceBlock(1, BLOCK - 10, BLOCK - 10), SequenceBlock(2, 5, 5)]
    assert broken_blocks(whole, 10, BLOCK + 5) == ()


def test_holes_repeats_and_absent_blocks_are_broken() -> None:
    found = [SequenceBlock(1, BLOCK, BLOCK - 1), SequenceBlock(2, BLOCK - 1, BLOCK - 1)]
    assert broken_blocks(found, 0, 3 * BLOCK) == (1, 2, 3)


def test_only_whole_neighbours_stand_at_the_edges_of_broken_blocks() -> None:
    assert edges((2, 3), 0, 5 * BLOCK) == [BLOCK, 3 * BLOCK + 1]
    assert edges((1,), 7, 20) == [7, 21]


@pytest.mark.spark
@pytest.mark.timeout(180)
def test_a_hole_and_a_repeat_in_one_block_do_not_hide_each_other(spark: SparkSession) -> None:
    seqs = [3, 4, 6, 7, 7, 8]
    records = [Record(seq, NOON + seq, "progress") for seq in seqs]
    found = events(frame(spark, records)).cache()
    check = check_sequence(found, 2, 9)
    assert check is not None
    assert (check.first, check.last, check.rows, check.has_repeats) == (3, 8, 6, True)
    assert rows(missing(found, check, 2, 9), "seq") == [(5,), (9,)]
    assert rows(repeated(found, check), "seq", "times") == [(7, 2)]
    assert check_sequence(found.limit(0), 0, None) is None


@pytest.mark.spark
@pytest.mark.timeout(180)
def test_of_repeated_records_the_same_one_is_kept_in_any_order(spark: SparkSession) -> None:
    one = Record(1, NOON, "progress", detail="b")
    two = replace(one, detail="a")
    kept = [without_repeats(events(frame(spark, order))) for order in ([one, two], [two, one])]
    assert [rows(found, "seq", "detail") for found in kept] == [[(1, "a")], [(1, "a")]]
    assert kept[0].schema.simpleString() == SCHEMA.simpleString()
