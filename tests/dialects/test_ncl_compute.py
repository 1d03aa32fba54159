"""Executions of a node: every message in every state, and restarts."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.ncl_vectors import body

from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.compute import Compute, resources_of
from dragoman.dialects.ncl.executions import outcome
from dragoman.dialects.ncl.messages import (
    AskForBid,
    BidAccepted,
    BidRejected,
    BidResult,
    CancelExecution,
    ComputeError,
    RunResult,
)
from dragoman.dialects.ncl.models import (
    BID_ACCEPTED,
    BID_OFFERED,
    BID_REFUSED,
    BID_REJECTED,
    CANCELLED,
    COMPLETED,
    FAILED,
    RUN,
    RUNNING,
    Execution,
    ExecutionState,
    InputSource,
    JobSpec,
    NclTask,
    SpecConfig,
    TaskResources,
    TaskTimeouts,
    WireObject,
)
from dragoman.dialects.ncl.store import NodeStore
from dragoman.dialects.peer_sides import Assigned, Stop
from dragoman.model.capacity import Capacity
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode

NOW = 1_700_000_000.0


class Bench:
    """The executions of a node and the messages they publish."""

    def __init__(self, slots: int = 2, store: NodeStore | None = None, queue: int = 0) -> None:
        self.said: list[WireObject] = []
        self.store = store or NodeStore()
        capacity = Capacity(2.0, 10**9, 10**9)
        self.compute = Compute(("Math", "noop"), slots, capacity, self.store, self.say, queue)

    def say(self, payload: WireObject) -> None:
        self.store.add_message(payload)
        self.said.append(payload)

    def hear(self, payload: WireObject) -> list[object]:
        return list(self.compute.receive(payload, NOW))

    def state(self, name: str = "e1") -> int:
        stored = self.compute.find(name)
        assert stored is not None
        return stored.state


def ask(name: str = "e1", *, desired: int = 0, kind: str = "batch", **task: object) -> AskForBid:
    said = {"Name": "main", "Engine": SpecConfig("math", {"task": "add"}), **task}
    job = JobSpec(ID="j1", Name="n", Namespace="d", Type=kind, Meta={}, Tasks=[NclTask(**said)])  # type: ignore[arg-type]
    return AskForBid(
        None, Execution(ID=name, JobID="j1", Job=job, DesiredState=ExecutionState(desired))
    )


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_ask_is_answered_with_a_bid_and_runs_when_it_is_taken(bench: Bench) -> None:
    assert bench.hear(ask()) == []
    assert bench.said == [BidResult("e1", "j1", "batch", None, True)]
    (work,) = bench.hear(BidAccepted(None, "e1"))
    assert isinstance(work, Assigned)
    assert (work.ticket, work.service, work.call.task) == ("e1", "Math", "add")
    bench.compute.begin("e1")
    assert bench.state() == RUNNING


def test_desired_running_runs_without_a_bid(bench: Bench) -> None:
    (work,) = bench.hear(ask(desired=RUN, kind="daemon"))
    assert isinstance(work, Assigned)
    assert bench.said == []
    assert bench.state() == BID_ACCEPTED


def test_the_vector_with_null_meta_is_survived(bench: Bench) -> None:
    payload = wire.decode(body("data.askforbid.nullmeta")).payload
    bench.hear(payload)
    (said,) = bench.said
    assert isinstance(said, BidResult)
    assert not said.Accepted


def test_null_meta_runs_like_any_other(bench: Bench) -> None:
    asked = ask(desired=RUN)
    assert asked.Execution.Job is not None
    asked.Execution.Job.Meta = None
    (work,) = bench.hear(asked)
    assert isinstance(work, Assigned)
    assert work.job == "j1"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (ask(Engine=SpecConfig("docker")), "no engine 'docker'"),
        (ask(Engine=SpecConfig("")), "no task with an engine"),
        (ask(kind="cron"), "unknown job type 'cron'"),
        (ask(Resources=TaskResources(CPU="8")), "more than this node has"),
        (ask(InputSources=[InputSource()]), "input sources"),
        (ask(Publisher=SpecConfig("local")), "no publisher 'local'"),
        (ask(Engine=SpecConfig("math", {"task": 5})), "not an NCL call"),
        (AskForBid(None, Execution(ID="e1")), "no task"),
    ],
)
def test_what_it_cannot_run_is_refused_with_the_reason(
    bench: Bench, asked: AskForBid, reason: str
) -> None:
    assert bench.hear(copy.deepcopy(asked)) == []
    (said,) = bench.said
    assert isinstance(said, BidResult)
    assert not said.Accepted
    assert said.Events is not None
    assert reason in said.Events[0].Message
    assert bench.state() == BID_REFUSED


def test_slots_bound_what_it_takes(bench: Bench) -> None:
    for number in range(3):
        bench.hear(ask(f"e{number}"))
    assert [s.Accepted for s in bench.said if isinstance(s, BidResult)] == [True, True, False]
    bench.hear(CancelExecution(None, "e0"))
    bench.hear(ask("e9"))
    last = bench.said[-1]
    assert isinstance(last, BidResult)
    assert last.Accepted


def test_what_has_no_slot_waits_in_the_queue_until_it_is_full() -> None:
    bench = Bench(slots=2, queue=3)
    for number in range(6):
        bench.hear(ask(f"e{number}", Resources=TaskResources(CPU="500m")))
    bids = [s for s in bench.said if isinstance(s, BidResult)]
    assert [b.Accepted for b in bids] == [True, True, True, True, True, False]
    assert bids[-1].Events is not None
    assert bids[-1].Events[0].Message.endswith("(2 slots, 3 places in the queue)")
    compute = bench.compute
    assert (compute.running, compute.enqueued) == (0, 0)
    for number in range(5):
        bench.hear(BidAccepted(None, f"e{number}"))
    assert (compute.running, compute.enqueued) == (2, 3)
    assert (compute.free.CPU, compute.queue_used.CPU) == (1, 1.5)
    compute.finish("e0", Answer(), NOW)
    bench.hear(CancelExecution(None, "e4"))
    assert (compute.running, compute.enqueued) == (2, 1)


def test_an_ask_without_an_id_is_ignored(bench: Bench) -> None:
    assert bench.hear(ask("")) == []
    assert bench.said == []


def test_timeouts_and_environment_reach_the_work(bench: Bench) -> None:
    (work,) = bench.hear(
        ask(desired=RUN, Timeouts=TaskTimeouts(ExecutionTimeout=30), Env={"MODE": "debug"})
    )
    assert isinstance(work, Assigned)
    assert work.timeout == 30.0
    assert work.call.headers == {"MODE": "debug"}


def partition(index: int, count: int, kind: str = "batch") -> AskForBid:
    asked = ask(f"e{index}", desired=RUN, kind=kind)
    execution = asked.Execution
    assert execution is not None
    assert execution.Job is not None
    execution.PartitionIndex, execution.Job.Count = index, count
    return asked


def test_partitions_of_a_job_are_told_apart(bench: Bench) -> None:
    works = [bench.hear(partition(index, 2))[0] for index in (0, 1)]
    outputs = [work.call.headers for work in works if isinstance(work, Assigned)]
    assert [h["BACALHAU_PARTITION_INDEX"] for h in outputs] == ["0", "1"]
    assert {h["BACALHAU_PARTITION_COUNT"] for h in outputs} == {"2"}


def test_a_partition_that_the_job_does_not_have_is_refused(bench: Bench) -> None:
    assert bench.hear(partition(2, 2)) == []
    assert bench.hear(partition(3, 1)) == []
    assert [said.Accepted for said in bench.said if isinstance(said, BidResult)] == [False, False]


def test_what_runs_once_on_every_node_has_no_partitions(bench: Bench) -> None:
    (work,) = bench.hear(partition(0, 5, "ops"))
    assert isinstance(work, Assigned)
    assert work.call.headers == {}


def test_a_rejected_bid_is_over(bench: Bench) -> None:
    bench.hear(ask())
    bench.hear(BidRejected(None, "e1"))
    assert bench.state() == BID_REJECTED
    assert bench.hear(BidAccepted(None, "e1")) == []


def test_a_cancel_stops_what_runs_and_says_nothing(bench: Bench) -> None:
    bench.hear(ask(desired=RUN))
    bench.compute.begin("e1")
    assert bench.hear(CancelExecution(None, "e1")) == [Stop("e1")]
    assert bench.state() == CANCELLED
    assert bench.said == []
    assert bench.compute.finish("e1", Answer(value=1), NOW) is False
    assert bench.said == []


@pytest.mark.parametrize("name", ["e1", "unknown"])
def test_a_cancel_of_what_is_over_or_unknown_is_harmless(bench: Bench, name: str) -> None:
    bench.hear(ask(desired=RUN))
    bench.compute.finish("e1", Answer(value=1), NOW)
    assert bench.hear(CancelExecution(None, name)) == []
    assert bench.state() == COMPLETED


def test_a_result_and_a_failure_are_said(bench: Bench) -> None:
    bench.hear(ask("e1", desired=RUN))
    bench.hear(ask("e2", desired=RUN))
    bench.compute.finish("e1", Answer(value=5), NOW)
    bench.compute.finish("e2", Answer(fault=Fault(FaultCode.TASK_FAILED, "boom")), NOW)
    result, error = bench.said
    assert isinstance(result, RunResult)
    assert isinstance(error, ComputeError)
    assert (result.ExecutionID, result.JobID, result.JobType) == ("e1", "j1", "batch")
    assert error.Events is not None
    assert (error.Events[0].Message, bench.state("e2")) == ("boom", FAILED)
    assert (bench.compute.failures, bench.compute.live) == (1, 0)


def test_work_handed_back_says_that_it_may_go_elsewhere(bench: Bench) -> None:
    bench.hear(ask(desired=RUN))
    assert bench.compute.hand_back("e1", NOW)
    assert not bench.compute.hand_back("e1", NOW)
    (said,) = bench.said
    assert isinstance(said, ComputeError)
    assert said.Events is not None
    assert said.Events[0].Details == {"ErrorCode": "HandedBack", "Retryable": "true"}


def test_what_is_taken_is_not_free() -> None:
    bench = Bench()
    bench.hear(ask(desired=RUN, Resources=TaskResources(CPU="500m", Memory="1mb")))
    assert (bench.compute.free.CPU, bench.compute.free.Memory) == (1.5, 999_000_000)
    bench.compute.finish("e1", Answer(), NOW)
    assert bench.compute.free.CPU == 2


def test_a_restart_fails_batch_work_and_runs_lasting_work_again() -> None:
    lines: list[bytes] = []
    before = Bench(slots=5, store=NodeStore(lines.append))
    before.hear(ask("e1", desired=RUN))
    before.hear(ask("e2", desired=RUN, kind="daemon"))
    before.hear(ask("e3"))
    store = NodeStore()
    store.load(lines)
    after = Bench(slots=5, store=store)
    restarted = after.compute.restart(NOW)
    assert [w.ticket for w in restarted] == ["e2"]
    failed = [s.ExecutionID for s in after.said if isinstance(s, ComputeError)]
    assert failed == ["e1", "e3"]
    assert after.compute.live == 1


def test_a_message_of_another_plane_is_not_handled(bench: Bench) -> None:
    assert not bench.compute.handles(BidResult())


def test_capacity_is_written_without_a_fraction_when_it_is_whole() -> None:
    assert resources_of(Capacity(2.0, 5, 6, 1)).CPU == 2
    assert resources_of(Capacity(-1.0, -5)).Memory == 0


_messages = st.one_of(
    st.builds(ask, st.sampled_from(["e1", "e2"]), desired=st.sampled_from([0, RUN])),
    st.builds(BidAccepted, st.none(), st.sampled_from(["e1", "e2", "e3"])),
    st.builds(BidRejected, st.none(), st.sampled_from(["e1", "e2"])),
    st.builds(CancelExecution, st.none(), st.sampled_from(["e1", "e2", "e3"])),
)


@given(st.lists(_messages, max_size=20), st.lists(st.integers(0, 19), max_size=20))
def test_no_order_and_no_replay_runs_an_execution_twice(
    messages: list[WireObject], replays: list[int]
) -> None:
    bench = Bench()
    works: list[str] = []
    for message in [*messages, *(messages[i] for i in replays if i < len(messages))]:
        for word in bench.hear(message):
            if isinstance(word, Assigned):
                works.append(word.ticket)
                bench.compute.begin(word.ticket)
    assert len(works) == len(set(works))


def test_states_are_the_documented_ones() -> None:
    bench = Bench()
    bench.hear(ask())
    assert bench.state() == BID_OFFERED


def test_a_result_larger_than_nats_carries_is_a_failure(bench: Bench) -> None:
    bench.hear(ask(desired=RUN))
    assert bench.compute.finish("e1", Answer(value="x" * 2**20), NOW)
    (error,) = bench.said
    assert isinstance(error, ComputeError)
    assert bench.state() == FAILED
    fault = outcome(error)[2]
    assert fault is not None
    assert fault.code is FaultCode.TOO_LARGE
    assert fault.message.startswith("the result has 1050")
