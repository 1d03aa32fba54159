"""A node's own ledger: what is written is restored after a restart."""

from dragoman.dialects.ncl.messages import BidResult, ComputeError
from dragoman.dialects.ncl.models import (
    BID_ACCEPTED,
    BID_OFFERED,
    COMPLETED,
    Execution,
    JobSpec,
)
from dragoman.dialects.ncl.store import NodeStore, StoredExecution


def full_store(lines: list[bytes]) -> NodeStore:
    store = NodeStore(lines.append)
    done, live = (
        StoredExecution("e1", "j1", "batch", BID_OFFERED),
        StoredExecution("e2", "j2", "daemon", BID_ACCEPTED),
    )
    live.spec = Execution(ID="e2", Job=JobSpec(ID="j2", Type="daemon"))
    store.add(done)
    store.add_message(BidResult("e1", "j1", "batch", None, True))
    store.set_state(done, COMPLETED)
    store.add(live)
    store.add_message(ComputeError("e1", "j1", "batch"))
    store.save_progress(received=7, acked=2)
    return store


def known(store: NodeStore) -> object:
    executions = {n: (h.job, h.kind, h.state, h.spec) for n, h in store.executions.items()}
    return executions, dict(store.out), store.seq, store.received, store.acked


def test_what_was_written_is_known_again() -> None:
    lines: list[bytes] = []
    store = full_store(lines)
    again = NodeStore()
    assert again.load(lines) == 0
    assert known(again) == known(store)


def test_a_snapshot_says_the_same_in_fewer_lines() -> None:
    lines: list[bytes] = []
    store = full_store(lines)
    snapshot = store.snapshot()
    assert len(snapshot) < len(lines)
    again = NodeStore()
    again.load(snapshot)
    assert known(again) == known(store)


def test_a_torn_line_is_counted_and_the_rest_is_read() -> None:
    lines: list[bytes] = []
    full_store(lines)
    again = NodeStore()
    assert again.load([lines[0], b'{"k":"out","seq', b"[]", b'{"k":"state","id":"?"}']) == 3
    assert list(again.executions) == ["e1"]


def test_loading_writes_nothing() -> None:
    lines: list[bytes] = []
    full_store(lines)
    written: list[bytes] = []
    NodeStore(written.append).load(lines)
    assert written == []


def test_acked_messages_are_let_go() -> None:
    store = full_store([])
    assert list(store.out) == [5]
    store.save_progress(7, 5)
    assert list(store.out) == []


def test_the_same_position_again_is_not_written_again() -> None:
    lines: list[bytes] = []
    store = full_store(lines)
    before = len(lines)
    store.save_progress(7, 2)
    assert len(lines) == before


def test_ended_executions_are_remembered_up_to_a_bound() -> None:
    store = NodeStore(remember=2)
    for number in range(4):
        held = StoredExecution(f"e{number}", "j", "batch", BID_OFFERED)
        store.add(held)
        store.set_state(held, COMPLETED)
    assert list(store.executions) == ["e2", "e3"]


def test_only_lasting_work_keeps_its_description() -> None:
    lines: list[bytes] = []
    store = NodeStore(lines.append)
    for kind in ("batch", "service"):
        held = StoredExecution(kind, "j", kind, BID_ACCEPTED)
        held.spec = Execution(ID=kind)
        store.add(held)
    assert [b'"spec"' in line for line in lines] == [False, True]
