"""Nodes and executions restored from records."""

from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.models import ConnectionRecord, NodeInfo, NodeState
from dragoman.dialects.ncl.recovery import Fold
from dragoman.model.body import Body
from dragoman.model.capacity import Capacity
from dragoman.model.record import Kind, Record
from dragoman.model.terms import Terms, terms_text

REQUEST = Body("ncl", (b"{}",))
BODIES = {1: REQUEST}
NOTHING: dict[int, Body] = {}


def submitted(seq: int = 1, job: str = "j1", **more: object) -> Record:
    return Record(seq, 10.0, Kind.SUBMITTED, job, client="nfp/c", target="any", **more)  # type: ignore[arg-type]


def dispatched(seq: int = 2, job: str = "j1", peer: str = "ncl/n-1", **more: object) -> Record:
    said = {"attempt": 1, "service": "math", "worker": "n-1", "peer": peer, **more}
    return Record(seq, 20.0, Kind.DISPATCHED, job, **said)  # type: ignore[arg-type]


def out(*records: Record) -> list[tuple[str, int]]:
    fold = Fold("ncl", records)
    return [(w.work.job, w.accepted) for w in fold.dispatches(BODIES.get)]


def test_a_dispatch_that_did_not_come_back_is_out() -> None:
    assert out(submitted(), dispatched()) == [("j1", 0)]


def test_an_accepted_bid_is_remembered() -> None:
    accepted = Record(3, 21.0, Kind.ACCEPTED, "j1", attempt=1)
    assert out(submitted(), dispatched(), accepted) == [("j1", 3)]


def test_what_went_to_another_link_is_not_ours() -> None:
    assert out(submitted(), dispatched(peer="nfp/w")) == []


def test_every_way_to_come_back() -> None:
    for kind in (Kind.REQUEUED, Kind.GATHERED, Kind.FORWARDED, Kind.ENDED):
        assert out(submitted(), dispatched(), Record(3, 30.0, kind, "j1")) == []


def test_a_second_attempt_is_out_again() -> None:
    requeued = Record(3, 30.0, Kind.REQUEUED, "j1")
    fold = Fold("ncl", [submitted(), dispatched(), requeued, dispatched(4, attempt=2)])
    (was,) = fold.dispatches(BODIES.get)
    assert (was.work.attempt, was.work.seq, was.accepted) == (2, 4, 0)
    assert fold.last == 4


def test_one_part_of_several_may_come_back_alone() -> None:
    records = [submitted(), dispatched(2, part=0), dispatched(3, part=1)]
    gathered = Record(4, 30.0, Kind.GATHERED, "j1", 0)
    fold = Fold("ncl", [*records, gathered])
    assert [w.work.seq for w in fold.dispatches(BODIES.get)] == [3]


def test_a_forwarded_request_is_the_new_one() -> None:
    other = Body("ncl", (b'{"task":"x"}',))
    records = [submitted(), dispatched(), Record(3, 30.0, Kind.FORWARDED, "j1"), dispatched(4)]
    (was,) = Fold("ncl", records).dispatches({1: REQUEST, 3: other}.get)
    assert was.work.body == other


def test_the_order_is_the_one_that_was_given() -> None:
    terms = Terms(run_timeout=5.0, needs=Capacity(cpu=1))
    first = submitted(terms=terms_text(terms), deadline_at=100.0)
    (was,) = Fold("ncl", [first, dispatched(task="add")]).dispatches(BODIES.get)
    work = was.work
    assert (work.run_until, work.needs, work.task) == (25.0, Capacity(cpu=1), "add")
    assert (work.client, work.target, work.body, was.at) == ("nfp/c", "any", REQUEST, 20.0)


def test_a_deadline_alone_bounds_the_run() -> None:
    (was,) = Fold("ncl", [submitted(deadline_at=22.0), dispatched()]).dispatches(BODIES.get)
    assert was.work.run_until == 22.0


def node_record(seq: int, peer: str = "ncl/n-1") -> Record:
    return Record(seq, 10.0, Kind.CHANGED, peer=peer, detail="ncl node n-1")


def test_the_newest_state_of_a_node_counts() -> None:
    def state(at: int) -> Body:
        record = ConnectionRecord(LastOrchestratorSeqNum=at)
        return Body("ncl", (dump(NodeState(NodeInfo("n-1"), ConnectionState=record)),))

    fold = Fold("ncl", [node_record(1), node_record(2)])
    (found,) = fold.nodes({1: state(5), 2: state(9)}.get)
    assert found.ConnectionState.LastOrchestratorSeqNum == 9


def test_a_state_that_cannot_be_read_is_a_node_that_is_new_again() -> None:
    fold = Fold("ncl", [node_record(1)])
    assert list(fold.nodes(NOTHING.get)) == []
    assert list(fold.nodes({1: Body("ncl", (b"nonsense",))}.get)) == []
    assert list(fold.nodes({1: Body("ncl")}.get)) == []


def test_other_changes_are_not_nodes() -> None:
    records = [node_record(1, "other/n-1"), Record(2, 1.0, Kind.CHANGED, detail="inventory")]
    assert list(Fold("ncl", records).nodes(NOTHING.get)) == []
