"""`format("dragoman")`: exported segments as a Spark data source, for notebooks and streams.

Offsets are sequence numbers. So a stream's checkpoint is a position in the ledger, a batch can be
replayed exactly, and a gap stops the stream. Options:

* `path`: the export's folder or URL;
* `after`: read only records after this number (default 0);
* `columns`: comma-separated names, to read only these (Spark prunes no columns of a Python source);
* `maxRows`: most sequence numbers in one micro-batch.

Batch reads push filters down if `spark.sql.python.filterPushdown.enabled` is set.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from dragoman.pipeline.export import Export
from dragoman.pipeline.manifest import (
    ExportedSegment,
    SegmentRange,
    head,
    plan,
)
from dragoman.pipeline.schema import RECORD

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "dragoman"


class SegmentPartition(InputPartition):
    """The records of one segment that one task reads."""

    def __init__(self, segment: ExportedSegment, after: int, upto: int) -> None:
        super().__init__(None)
        self.segment = segment
        self.after = after
        self.upto = upto


def partitions_of(ranges: Iterable[SegmentRange]) -> list[SegmentPartition]:
    """Return one partition for each range of a plan."""
    return [SegmentPartition(p.segment, p.after, p.last) for p in ranges]


def read_partition(
    export: Export,
    wanted: SegmentPartition,
    names: Sequence[str],
    conditions: Sequence[tuple[Any, ...]] = (),
) -> "Iterator[pa.RecordBatch]":
    """Check the segment's file, then yield the records of the partition."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = export.read(wanted.segment)
    bounds = [("seq", ">", wanted.after), ("seq", "<=", wanted.upto)]
    filters = [*bounds, *conditions]
    table = pq.read_table(pa.BufferReader(data), columns=[*names], filters=filters)
    # Spark requires exactly its own schema, in which each column is nullable.
    plain = pa.schema([pa.field(name, table.schema.field(name).type) for name in names])
    yield from table.select([*names]).cast(plain).combine_chunks().to_batches(max_chunksize=50_000)


class DragomanSource(DataSource):
    """The data source that Spark finds by the name of the format."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of a record, or those of the option `columns`."""
        wanted = self.options.get("columns")
        if not wanted:
            return RECORD
        return StructType([RECORD[name.strip()] for name in wanted.split(",")])

    def reader(self, schema: StructType) -> "SegmentReader":
        """Return the batch reader."""
        return SegmentReader(self._export(), schema.fieldNames(), self._after())

    def streamReader(self, schema: StructType) -> "SegmentStreamReader":  # noqa: N802 (Spark's name)
        """Return the streaming reader."""
        most = int(self.options.get("maxRows", "0"))
        return SegmentStreamReader(self._export(), schema.fieldNames(), self._after(), most)

    def _export(self) -> Export:
        if not self.options.get("path"):
            raise ValueError(
                "no path: give the export's folder with .load(path) or .option('path', path)"
            )
        return Export(self.options["path"])

    def _after(self) -> int:
        return int(self.options.get("after", "0"))


_OPERATORS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    In: "in",
}


class SegmentReader(DataSourceReader):
    """Reads all records, one task per segment."""

    def __init__(self, export: Export, names: Sequence[str], after: int) -> None:
        self.export = export
        self.names = [*names]
        self.after = after
        self.upto = 2**62
        self.conditions: list[tuple[object, ...]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Use filters that Parquet statistics can apply; Spark still checks every row."""
        for each in filters:
            self._use(each)
            yield each

    def _use(self, each: Filter) -> None:
        operator = _OPERATORS.get(type(each))
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        wanted = getattr(each, "value", None)
        if operator is None or len(attribute) != 1 or not _is_plain(wanted):
            return
        (name,) = attribute
        self.conditions.append((name, operator, wanted))
        if name == "seq" and isinstance(wanted, int):
            self._narrow(operator, wanted)

    def _narrow(self, operator: str, number: int) -> None:
        if operator in (">", ">=", "="):
            self.after = max(self.after, number if operator == ">" else number - 1)
        if operator in ("<", "<=", "="):
            self.upto = min(self.upto, number - 1 if operator == "<" else number)

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each segment with matching records."""
        segments = self.export.segments()
        upto = min(self.upto, head(segments))
        return partitions_of(plan(segments, self.after, upto)) if self.after < upto else []

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one partition; without any, Spark calls this once with an empty one."""
        if isinstance(partition, SegmentPartition):
            yield from read_partition(self.export, partition, self.names, self.conditions)


def _is_plain(wanted: object) -> bool:
    values = wanted if isinstance(wanted, tuple | list) else [wanted]
    return bool(values) and all(isinstance(v, int | str | bool) for v in values)


class SegmentStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows an export; an offset `{"seq": N}` is the newest record that was read."""

    def __init__(self, export: Export, names: Sequence[str], after: int, most: int) -> None:
        self.export = export
        self.names = [*names]
        self.after = after
        self.most = most
        self.target: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        """Return the offset of a new stream."""
        return {"seq": self.after}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """Return the limit of one micro-batch."""
        return ReadMaxRows(self.most) if self.most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Fix the end of a stream that stops after the current segments."""
        self.target = head(self.export.segments())

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the end of the next micro-batch."""
        end = head(self.export.segments()) if self.target is None else self.target
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["seq"] + limit.max_rows)
        return {"seq": max(end, start["seq"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return what to read; raises `SegmentMissing` if no segment holds some record."""
        return partitions_of(plan(self.export.segments(), start["seq"], end["seq"]))

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one partition; the same partition always gives the same records."""
        assert isinstance(partition, SegmentPartition)
        yield from read_partition(self.export, partition, self.names)
