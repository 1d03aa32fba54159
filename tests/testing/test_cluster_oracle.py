"""The oracle of clusters notices what must never be in a stream."""

import pytest

from dragoman.core.effects import SendReply
from dragoman.core.events import ReplyKind
from dragoman.ledger.base import Entry
from dragoman.ledger.memory_stream import MemoryStream
from dragoman.ledger.publication import content_id
from dragoman.ledger.rows import to_row
from dragoman.ledger.stream_codec import Appended, LedgerMessage, encode
from dragoman.model.body import EMPTY
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.record import Kind, Record
from dragoman.testing.cluster_oracle import ClusterOracle
from dragoman.testing.oracle import PromiseBroken


@pytest.fixture
def stream() -> MemoryStream:
    return MemoryStream()


@pytest.fixture
def oracle(stream: MemoryStream) -> ClusterOracle:
    return ClusterOracle(stream)


def appended(stream: MemoryStream, epoch: int, *records: Record) -> LedgerMessage:
    return Appended(
        after=stream.last,
        epoch=epoch,
        first=records[0].seq,
        last=records[-1].seq,
        chain=0,
        link=b"",
        rows=[(*to_row(record), 0, None, b"") for record in records],
        bodies=[],
    )


def write(stream: MemoryStream, epoch: int, *records: Record) -> None:
    data = encode(appended(stream, epoch, *records))
    assert stream.store(data, content_id(data), stream.last)


def started(seq: int) -> Record:
    return Record(seq, 1.0, Kind.STARTED)


def submitted(seq: int, job: str = "j1") -> Record:
    return Record(seq, 1.0, Kind.SUBMITTED, job=job)


def test_leaders_in_order_are_fine(stream: MemoryStream, oracle: ClusterOracle) -> None:
    write(stream, 1, started(1))
    write(stream, 1, submitted(2))
    write(stream, 2, started(3))
    oracle.written([Entry(started(3))])
    oracle.fenced("a", 1)
    assert sorted(oracle.records) == [1, 2, 3]


def test_a_write_behind_a_fence_is_noticed(stream: MemoryStream, oracle: ClusterOracle) -> None:
    write(stream, 2, started(1))
    write(stream, 1, submitted(2))
    with pytest.raises(PromiseBroken, match="a fence did not hold"):
        oracle.look()


def test_a_gap_is_noticed(stream: MemoryStream, oracle: ClusterOracle) -> None:
    write(stream, 1, started(1))
    write(stream, 1, submitted(3))
    with pytest.raises(PromiseBroken, match="record 3 follows 1"):
        oracle.look()


def test_an_epoch_with_two_starts_is_noticed(stream: MemoryStream, oracle: ClusterOracle) -> None:
    write(stream, 1, started(1))
    write(stream, 1, started(2))
    with pytest.raises(PromiseBroken, match="epoch 1 began"):
        oracle.look()


def test_an_acknowledged_record_that_is_not_stored_is_noticed(oracle: ClusterOracle) -> None:
    with pytest.raises(PromiseBroken, match="is not in the stream"):
        oracle.written([Entry(submitted(1))])


def test_a_leader_fenced_by_nobody_is_noticed(stream: MemoryStream, oracle: ClusterOracle) -> None:
    write(stream, 1, started(1))
    with pytest.raises(PromiseBroken, match="by nobody"):
        oracle.fenced("a", 1)


def reply(kind: ReplyKind, state: JobState | None = None) -> SendReply:
    return SendReply(
        PeerId("local/c"),
        JobId("j1"),
        kind,
        ServiceName("s"),
        body=EMPTY,
        state=state,
        is_strict=True,
    )


def test_a_lost_acknowledgement_is_noticed(stream: MemoryStream, oracle: ClusterOracle) -> None:
    write(stream, 1, started(1))
    oracle.received(reply(ReplyKind.QUEUED))
    with pytest.raises(PromiseBroken, match="acknowledged and lost"):
        oracle.check_finished([])


def test_two_final_states_are_noticed(oracle: ClusterOracle) -> None:
    oracle.received(reply(ReplyKind.FINAL, JobState.CANCELLED))
    with pytest.raises(PromiseBroken, match="j1 was"):
        oracle.received(reply(ReplyKind.FINAL, JobState.SUCCEEDED))
