"""The record: columns, their order and defaults must stay compatible with old files."""

from dataclasses import MISSING, fields

from dragoman.model.record import VERSION, Kind, Record

#: The columns of version 1, in order. Later versions add at the end and never touch these.
COLUMNS = [
    "seq",
    "at",
    "kind",
    "job",
    "part",
    "attempt",
    "service",
    "task",
    "client",
    "worker",
    "peer",
    "principal",
    "dialect",
    "target",
    "state",
    "fault",
    "detail",
    "nbytes",
    "digest",
    "priority",
    "key",
    "terms",
    "submitted_at",
    "deadline_at",
    "count",
    "strict",
    "version",
]

KINDS = [
    "submitted",
    "refused",
    "bound",
    "dispatched",
    "accepted",
    "progress",
    "input_asked",
    "input_given",
    "requeued",
    "forwarded",
    "gathered",
    "ended",
    "cancel_asked",
    "late",
    "joined",
    "resynced",
    "left",
    "owns",
    "rejected",
    "undelivered",
    "published",
    "started",
    "stopped",
    "changed",
]


def test_the_columns_keep_their_names_and_order() -> None:
    assert [f.name for f in fields(Record)][: len(COLUMNS)] == COLUMNS


def test_a_new_column_comes_with_a_new_version() -> None:
    assert {1: len(COLUMNS), 2: len(COLUMNS) + 2}[VERSION] == len(fields(Record))


def test_a_row_read_by_position_is_the_record_that_was_written() -> None:
    written = Record(7, 1.5, Kind.ENDED, job="j", worker="w", state="failed", count=3, strict=False)
    row = tuple(getattr(written, name) for name in COLUMNS)
    assert Record(*row) == written


def test_only_position_time_and_kind_have_to_be_said() -> None:
    needed = [f.name for f in fields(Record) if f.default is MISSING]
    assert needed == ["seq", "at", "kind"]
    plain = Record(1, 0.0, Kind.STARTED)
    assert plain.principal == "anonymous"
    assert plain.version == VERSION


def test_what_does_not_apply_is_empty_or_zero() -> None:
    said = {"seq", "at", "kind", "principal", "strict", "version"}
    plain = Record(1, 0.0, Kind.STARTED)
    assert not any(getattr(plain, name) for name in COLUMNS if name not in said)


def test_every_kind_ever_written_can_still_be_read() -> None:
    assert [Kind(kind).value for kind in KINDS] == KINDS
