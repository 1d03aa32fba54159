"""The replicated ledger: what a standby, a new leader and a rebuilt copy find."""

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from tests.ledger.entries import entries, entry, fill, run, seqs

from dragoman.ledger.base import (
    Fenced,
    LedgerError,
    LedgerUnavailable,
)
from dragoman.ledger.memory_stream import MemoryStream, StreamConnection, StreamFaults
from dragoman.ledger.replicated import ReplicatedLedger, open_replica


class Node:
    """A copy in a folder of its own, on a shared stream."""

    def __init__(self, folder: Path, stream: MemoryStream, key: bytes = b"") -> None:
        self.path = folder / "ledger.db"
        self.connection = StreamConnection(stream)
        self.ledger = ReplicatedLedger(self.path, self.connection, key, patience=0.01)
        self.ledger.catch_up()


@pytest.fixture
def stream() -> MemoryStream:
    return MemoryStream()


@pytest.fixture
def leader(tmp_path: Path, stream: MemoryStream) -> Node:
    node = Node(tmp_path / "a", stream, b"audit key")
    node.ledger.lead()
    return node


def same(one: ReplicatedLedger, other: ReplicatedLedger) -> bool:
    """Tell whether two copies are equal, down to their links."""
    one.verify()
    other.verify()
    return (
        list(one.read()) == list(other.read())
        and one.head() == other.head()
        and one.checkpoints() == other.checkpoints()
        and [one.body(seq) for seq in range(one.first_seq, one.last_seq + 1)]
        == [other.body(seq) for seq in range(other.first_seq, other.last_seq + 1)]
    )


def test_a_standby_without_the_audit_key_has_an_equal_copy(
    leader: Node, tmp_path: Path, stream: MemoryStream
) -> None:
    fill(leader.ledger, 250)
    leader.ledger.checkpoint("spark", 100)
    standby = Node(tmp_path / "b", stream)
    assert same(leader.ledger, standby.ledger)
    fill(leader.ledger, 300)
    found = standby.ledger.follow(0.0)
    assert [r.seq for applied in found for r in applied.records] == list(range(251, 301))
    assert same(leader.ledger, standby.ledger)


def test_one_append_is_one_message_and_appends_at_once_share_one(
    leader: Node, stream: MemoryStream
) -> None:
    async def append_all() -> None:
        await asyncio.gather(*(leader.ledger.append(entries(n, n)) for n in range(1, 200)))

    run(append_all())
    assert len(stream.messages) < 199


def test_a_copy_is_rebuilt_after_retention_from_what_the_stream_kept(
    leader: Node, tmp_path: Path, stream: MemoryStream
) -> None:
    fill(leader.ledger, 1000, batch=30)
    leader.ledger.checkpoint("spark", 700)
    leader.ledger.checkpoint("gone", 710)
    leader.ledger.forget_checkpoint("gone")
    assert run(leader.ledger.retain(keep_records=100)) == 701
    assert stream.first > 1
    standby = Node(tmp_path / "b", stream)
    assert standby.ledger.first_seq == 701
    assert same(leader.ledger, standby.ledger)


def test_a_copy_is_rebuilt_when_everything_was_removed(
    leader: Node, tmp_path: Path, stream: MemoryStream
) -> None:
    fill(leader.ledger, 50)
    run(leader.ledger.retain(keep_records=0))
    standby = Node(tmp_path / "b", stream)
    assert (standby.ledger.first_seq, standby.ledger.last_seq) == (51, 50)
    fill(leader.ledger, 60)
    standby.ledger.catch_up()
    assert same(leader.ledger, standby.ledger)


def test_a_standby_that_was_overtaken_by_a_purge_begins_anew_and_says_so(
    leader: Node, tmp_path: Path, stream: MemoryStream
) -> None:
    fill(leader.ledger, 100, batch=10)
    standby = Node(tmp_path / "b", stream)
    fill(leader.ledger, 300, batch=10)
    run(leader.ledger.retain(keep_records=20))
    found = standby.ledger.follow(0.0)
    assert [applied.is_new_start for applied in found][:2] == [True, False]
    assert found[0].records[0].seq <= 281
    assert same(leader.ledger, standby.ledger)


def test_a_copy_continues_where_it_stopped(
    leader: Node, tmp_path: Path, stream: MemoryStream
) -> None:
    fill(leader.ledger, 100)
    place = leader.ledger.place
    run(leader.ledger.close())
    again = Node(tmp_path / "a", stream, b"audit key")
    assert again.ledger.place == place
    assert again.ledger.lead() == place.epoch + 1
    assert run(again.ledger.append(entries(101, 101))) == 101


def test_a_damaged_copy_is_set_aside_and_filled_again(leader: Node, stream: MemoryStream) -> None:
    fill(leader.ledger, 100)
    run(leader.ledger.close())
    leader.path.write_bytes(b"no database")
    ledger = open_replica(leader.path, leader.connection)
    ledger.catch_up()
    assert seqs(ledger.read()) == list(range(1, 101))
    assert leader.path.with_name("ledger.db.unusable").read_bytes() == b"no database"


def test_the_first_write_of_a_new_leader_fences_the_old_one_for_good(
    leader: Node, tmp_path: Path, stream: MemoryStream
) -> None:
    fill(leader.ledger, 10)
    new = Node(tmp_path / "b", stream)
    assert new.ledger.lead() == leader.ledger.epoch + 1
    run(new.ledger.append(entries(11, 11)))
    for _ in range(2):
        with pytest.raises(Fenced):
            run(leader.ledger.append(entries(11, 11, job="other")))
    with pytest.raises(Fenced):
        leader.ledger.checkpoint("spark", 1)
    assert leader.ledger.last_seq == 10
    run(new.ledger.append(entries(12, 12)))
    assert stream.last == 3


def test_a_standby_writes_nothing(tmp_path: Path, stream: MemoryStream) -> None:
    standby = Node(tmp_path / "b", stream)
    with pytest.raises(LedgerError, match="standby"):
        run(standby.ledger.append(entries(1, 1)))
    assert stream.last == 0


def test_an_append_in_doubt_is_not_called_unwritten_and_the_same_batch_settles_it(
    leader: Node, stream: MemoryStream
) -> None:
    leader.connection.faults = StreamFaults(Random(1), lost_answer=1.0)
    leader.connection.is_cut = False
    with pytest.raises(LedgerUnavailable, match="in doubt"):
        run(leader.ledger.append(entries(1, 2)))
    assert (stream.last, leader.ledger.last_seq) == (1, 0)
    leader.connection.faults = StreamFaults()
    assert run(leader.ledger.append(entries(1, 2))) == 2
    assert run(leader.ledger.append(entries(3, 3))) == 3
    assert stream.last == 2


def test_a_checkpoint_settles_the_append_in_doubt_before_it(
    leader: Node, stream: MemoryStream
) -> None:
    fill(leader.ledger, 5)
    leader.connection.faults = StreamFaults(Random(1), lost_request=1.0)
    with pytest.raises(LedgerUnavailable):
        run(leader.ledger.append(entries(6, 7)))
    leader.connection.faults = StreamFaults()
    leader.ledger.checkpoint("spark", 5)
    assert run(leader.ledger.append(entries(6, 7))) == 7
    assert seqs(leader.ledger.read()) == list(range(1, 8))


def test_an_append_that_was_settled_meanwhile_may_fail_again_before_it_returns(
    leader: Node,
) -> None:
    leader.connection.faults = StreamFaults(Random(1), lost_answer=1.0)
    with pytest.raises(LedgerUnavailable):
        run(leader.ledger.append(entries(1, 2)))
    leader.connection.faults = StreamFaults()
    leader.ledger.checkpoint("spark", 0)
    leader.connection.is_cut = True
    with pytest.raises(LedgerUnavailable):
        leader.ledger.checkpoint("spark", 1)
    with pytest.raises(LedgerUnavailable):
        run(leader.ledger.append(entries(1, 2)))
    leader.connection.is_cut = False
    assert run(leader.ledger.append(entries(1, 2))) == 2
    assert run(leader.ledger.append(entries(3, 3))) == 3


def test_another_batch_in_place_of_the_one_in_doubt_is_refused(leader: Node) -> None:
    leader.connection.faults = StreamFaults(Random(1), lost_answer=1.0)
    with pytest.raises(LedgerUnavailable):
        run(leader.ledger.append(entries(1, 2)))
    leader.connection.faults = StreamFaults()
    with pytest.raises(LedgerError, match="another batch was written in place of record 2"):
        run(leader.ledger.append([entry(1), entry(2, detail="other")]))


def test_a_new_leader_finds_what_the_old_one_had_in_doubt(
    leader: Node, tmp_path: Path, stream: MemoryStream
) -> None:
    leader.connection.faults = StreamFaults(Random(1), lost_answer=1.0)
    with pytest.raises(LedgerUnavailable):
        run(leader.ledger.append(entries(1, 2)))
    new = Node(tmp_path / "b", stream)
    assert seqs(new.ledger.read()) == [1, 2]
    new.ledger.lead()
    run(new.ledger.append(entries(3, 3)))
    leader.connection.faults = StreamFaults()
    assert run(leader.ledger.append(entries(1, 2))) == 2  # it was stored before the fence
    with pytest.raises(Fenced):
        run(leader.ledger.append(entries(3, 3, job="other")))


def test_a_stream_that_lost_messages_is_not_continued(leader: Node, tmp_path: Path) -> None:
    fill(leader.ledger, 10)
    run(leader.ledger.close())
    with pytest.raises(LedgerUnavailable, match=r"the copy has message 1, .* ends at 0"):
        Node(tmp_path / "a", MemoryStream())


def test_servers_that_are_behind_never_harm_a_copy(
    leader: Node, tmp_path: Path, stream: MemoryStream
) -> None:
    fill(leader.ledger, 20, batch=1)
    standby = Node(tmp_path / "b", stream)
    fill(leader.ledger, 40, batch=1)
    standby.connection.faults = StreamFaults(Random(1), stale=0.9)
    for _ in range(10):
        with suppress(LedgerUnavailable):
            standby.ledger.catch_up()
    standby.connection.faults = StreamFaults()
    standby.ledger.catch_up()
    assert same(leader.ledger, standby.ledger)


def test_an_unreachable_stream_is_reported(leader: Node) -> None:
    leader.connection.is_cut = True
    with pytest.raises(LedgerUnavailable, match="does not answer"):
        leader.ledger.catch_up()


def test_retention_stops_before_a_needed_record_because_the_stream_would_lose_it(
    leader: Node, tmp_path: Path, stream: MemoryStream
) -> None:
    fill(leader.ledger, 100)
    assert run(leader.ledger.retain(keep_records=10, needed=lambda r: r.seq in (30, 40))) == 30
    assert run(leader.ledger.retain(keep_records=10, needed=lambda r: r.seq in (30, 40))) == 30
    assert leader.ledger.pinned() == []
    late = Node(tmp_path / "late", stream)
    assert same(leader.ledger, late.ledger)
    assert run(leader.ledger.retain(keep_records=10)) == 91
