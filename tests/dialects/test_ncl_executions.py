"""The orchestrator's executions: ids, outcomes, asks, bounds."""

import re

import pytest
from tests.dialects.ncl_vectors import body

from dragoman.core.effects import SendWork
from dragoman.core.events import ReplyKind
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.body_codec import NclBodyCodec
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.executions import (
    Executions,
    LiveExecution,
    ask_for_bid,
    derived_id,
    execution_id,
    outcome,
)
from dragoman.dialects.ncl.messages import BidResult, ComputeError, RunResult
from dragoman.dialects.ncl.models import (
    BID_REFUSED,
    CANCELLED,
    COMPLETED,
    FAILED,
    NEW,
    PENDING,
    RUN,
    NclEvent,
)
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.model.body import EMPTY
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName

PEER = PeerId("ncl/n-1")
NOW = 1_700_000_000.0


def work(**more: object) -> SendWork:
    said = {"service": ServiceName("math"), "client": PeerId("nfp/c"), "body": EMPTY, **more}
    return SendWork(PEER, JobId("j1"), 1, **said)  # type: ignore[arg-type]


def test_an_id_has_the_wire_s_shape_and_is_the_same_again() -> None:
    one = execution_id("j1", PEER, 1)
    assert re.fullmatch(r"e-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", one)
    assert one == execution_id("j1", PEER, 1)


def test_another_attempt_or_worker_is_another_execution() -> None:
    ids = {execution_id("j1", w, a) for w in ("ncl/n-1", "ncl/n-2") for a in (1, 2)}
    assert len(ids) == 4
    assert derived_id("j", "a", "bc") != derived_id("j", "ab", "c")


def test_an_ask_has_what_a_real_node_requires() -> None:
    ask = ask_for_bid(work(task="add"), {"task": "add"}, OrchestratorSettings(), NOW)
    execution = ask.Execution
    assert execution.ComputeState.StateType == NEW
    assert execution.DesiredState.StateType == PENDING
    assert execution.Revision == 1
    assert all((execution.ID, execution.Namespace, execution.JobID))
    job = execution.Job
    assert job is not None
    assert all((job.ID, job.Name, job.Namespace))
    assert (job.Type, job.Count) == ("batch", 1)
    assert isinstance(job.Meta, dict)
    assert job.Tasks is not None
    assert job.Tasks[0].Name == "main"
    assert job.Tasks[0].Engine.Type == "math"
    assert job.Tasks[0].Engine.Params == {"task": "add"}


def test_an_ask_has_the_members_of_a_real_one() -> None:
    ours = dump(ask_for_bid(work(), {}, OrchestratorSettings(), NOW))
    real = dump(wire.decode(body("capture/006.AskForBid")).payload)
    members = re.compile(rb'"(\w+)":')
    known = set(members.findall(real)) | {b"Params", b"CPU", b"Memory"}
    assert set(members.findall(ours)) - known == set()


def test_without_bids_and_for_all_it_is_run_at_once() -> None:
    settings = OrchestratorSettings(bids=False)
    assert ask_for_bid(work(), {}, settings, NOW).Execution.DesiredState.StateType == RUN
    ask = ask_for_bid(work(target="all"), {}, OrchestratorSettings(), NOW)
    assert ask.Execution.DesiredState.StateType == RUN
    assert ask.Execution.Job is not None
    assert (ask.Execution.Job.Type, ask.Execution.Job.Count) == ("ops", 0)


def test_needs_and_time_limit_are_sent_to_the_node() -> None:
    needs = Capacity(0.5, 10**9, 0, 2)
    ask = ask_for_bid(work(needs=needs, run_until=NOW + 90), {}, OrchestratorSettings(), NOW)
    assert ask.Execution.Job is not None
    assert ask.Execution.Job.Tasks is not None
    (task,) = ask.Execution.Job.Tasks
    assert dump(task.Resources) == b'{"CPU":"500m","Memory":"1000000000b","GPU":"2"}'
    assert dump(task.Timeouts) == b'{"ExecutionTimeout":90}'


def test_a_run_result_is_the_caller_s_body() -> None:
    payload = wire.decode(body("data.runresult")).payload
    state, found, fault = outcome(payload)
    assert (state, fault) == (COMPLETED, None)
    assert NclBodyCodec().read_answer(found).value["stdout"] == "hello\n"


def test_a_non_zero_exit_is_a_failure_with_its_output() -> None:
    state, found, fault = outcome(wire.decode(body("data.runresult.nopublisher")).payload)
    assert state == FAILED
    assert fault == Fault(FaultCode.TASK_FAILED, "exit 3")
    assert found.size > 0


def test_a_compute_error_is_its_first_event() -> None:
    events = [NclEvent("boom", Details={"Hint": "look there"}), NclEvent("more")]
    assert outcome(ComputeError("e", Events=events))[2] == Fault(
        FaultCode.TASK_FAILED, "boom (look there)"
    )
    assert outcome(ComputeError("e"))[2] == Fault(FaultCode.TASK_FAILED, "the node gave no reason")


def test_a_node_s_restart_gives_the_work_to_another() -> None:
    found = outcome(wire.decode(body("data.computeerror")).payload)[2]
    assert found == Fault(FaultCode.HANDED_BACK, "Failing due to node restart")


def test_work_handed_back_goes_to_another() -> None:
    events = [NclEvent("handed back", Details={"ErrorCode": "HandedBack"})]
    found = outcome(ComputeError("e", Events=events))[2]
    assert found is not None
    assert found.code is FaultCode.HANDED_BACK


def test_a_refusal_has_its_reason() -> None:
    state, _, fault = outcome(wire.decode(body("data.bidresult.rejected")).payload)
    assert state == BID_REFUSED
    words = "bid refused: rejected bid: not enough capacity"
    assert fault == Fault(FaultCode.HANDED_BACK, words)
    assert "no reason" in outcome(BidResult("e"))[2].message  # type: ignore[union-attr]


def tracked(job: str = "j1", needs: Capacity = NOTHING) -> LiveExecution:
    return LiveExecution(JobId(job), PEER, 1, needs)


def test_live_executions_are_counted_by_node() -> None:
    executions = Executions(10)
    one, other = tracked("j1", Capacity(cpu=1)), tracked("j2", Capacity(cpu=2))
    executions.add(one)
    executions.add(other)
    assert executions.taken("n-1") == Capacity(cpu=3)
    assert executions.on("n-1") == [one, other]
    executions.end(one, COMPLETED)
    executions.end(other, COMPLETED)
    assert executions.taken("n-1") == NOTHING
    assert executions.on("n-1") == []


def test_a_new_message_about_a_stopped_one_is_reported_once_and_a_replay_never() -> None:
    executions = Executions(10)
    one, other = tracked("j1"), tracked("j2")
    executions.add(one)
    executions.add(other)
    executions.end(one, CANCELLED)
    executions.end(other, COMPLETED)
    assert executions.late(one.id, "n-1", COMPLETED) is not None
    assert executions.late(one.id, "n-1", COMPLETED) is None
    assert executions.late(other.id, "n-1", COMPLETED) is None


def test_another_node_has_no_say() -> None:
    executions = Executions(10)
    one = tracked()
    executions.add(one)
    assert executions.is_known(one.id, "n-1")
    assert not executions.is_known(one.id, "n-2")
    executions.end(one, CANCELLED)
    assert executions.late(one.id, "n-2", COMPLETED) is None


def test_the_memory_of_ended_ones_is_bounded() -> None:
    executions = Executions(2)
    made = [tracked(f"j{n}") for n in range(4)]
    for one in made:
        executions.add(one)
        executions.end(one, COMPLETED)
    assert [executions.is_known(one.id, "n-1") for one in made] == [False, False, True, True]


def test_a_reply_names_its_attempt() -> None:
    reply = LiveExecution(JobId("j"), PEER, 3).reply(ReplyKind.ACCEPTED)
    assert (reply.worker, reply.job, reply.attempt) == (PEER, "j", 3)


@pytest.mark.parametrize("kind", [RunResult, ComputeError, BidResult])
def test_an_empty_result_is_an_outcome_too(kind: type) -> None:
    outcome(kind())
