"""The orchestrator's executions: one attempt of a job on one node.

    state          on                       then
    -----          --                       ----
    NEW            ask for bid sent         a bid, a refusal, a result
    NEW            bid offered              bid accepted (sent), state BID_ACCEPTED
    NEW            bid refused              ended BID_REFUSED: the job goes to another node
    any live       run result               ended COMPLETED (or FAILED by its exit code)
    any live       compute error            ended FAILED, or handed back if the node says so
    any live       cancel of the core       ended CANCELLED: bid rejected or cancel sent
    ended          anything                 a replay (dropped) or late (the core records it)

An execution's id is derived from job, worker and attempt. A dispatch that is replayed after a
restart is therefore the same execution. Its id and state identify a result, never a sequence
number. Nothing is sent here.
"""

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from dragoman.core.effects import SendWork
from dragoman.core.events import ReplyKind, ReplyReceived
from dragoman.dialects.ncl.body_codec import answer_of
from dragoman.dialects.ncl.dataplane import OrderedMessage
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.messages import AskForBid, BidResult, ComputeError, RunResult
from dragoman.dialects.ncl.models import (
    BID_REFUSED,
    CANCELLED,
    COMPLETED,
    FAILED,
    NEW,
    PENDING,
    RUN,
    Allocation,
    CommandResult,
    Execution,
    ExecutionState,
    JobSpec,
    NclEvent,
    NclTask,
    SpecConfig,
    TaskResources,
    TaskTimeouts,
    WireObject,
)
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.dialects.ncl.wire import nanoseconds
from dragoman.model.body import EMPTY, Body
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, name_of
from dragoman.model.target import resources_of
from dragoman.model.value import value

#: Keys of job metadata that carry Dragoman's own ids.
META_JOB: Final = "dragoman/job"
#: The resources of an execution, in target syntax.
META_RESOURCES: Final = "dragoman/resources"
META_ATTEMPT: Final = "dragoman/attempt"
META_CLIENT: Final = "dragoman/client"
_RESERVED: Final = "bacalhau.org/"

#: Upstream's error message for executions that a restart of the node ended.
NODE_RESTART: Final = "Failing due to node restart"
#: Error codes in an event's details: the node hands the work back unrun; the result exceeds what
#: NATS carries.
HANDED_BACK: Final = "HandedBack"
TOO_LARGE: Final = "ResultTooLarge"


def derived_id(prefix: str, *parts: object) -> str:
    """Return an id in wire format; the same parts give the same id."""
    digest = sha256("\0".join(map(str, parts)).encode()).hexdigest()
    return f"{prefix}-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def execution_id(job: str, worker: str, attempt: int) -> str:
    """Return the id of one attempt of a job on one worker."""
    return derived_id("e", job, worker, attempt)


class LiveExecution:
    """One live execution."""

    __slots__ = (
        "attempt",
        "claimed_in",
        "id",
        "is_delivery_unknown",
        "is_followed",
        "job",
        "needs",
        "node",
        "peer",
        "sent",
        "state",
    )  # fmt: skip

    def __init__(self, job: JobId, peer: PeerId, attempt: int, needs: Capacity = NOTHING) -> None:
        self.job, self.peer, self.attempt, self.needs = job, peer, attempt, needs
        self.node = name_of(peer)
        self.id = execution_id(job, peer, attempt)
        self.state = NEW
        #: Messages about it, kept to resend them to a node that lost them.
        self.sent: list[OrderedMessage] = []
        #: True after a restart: the records do not say which messages reached the node.
        self.is_delivery_unknown = False
        #: The node session in which it was sent or last claimed by the core.
        self.claimed_in = 0
        self.is_followed = False

    def reply(
        self, kind: ReplyKind, body: Body = EMPTY, fault: Fault | None = None
    ) -> ReplyReceived:
        """Return a reply event of this execution for the core."""
        return ReplyReceived(self.peer, self.job, kind, body, fault, self.attempt)


@value
class EndedExecution:
    """What is kept of an ended execution."""

    job: JobId
    peer: PeerId
    attempt: int
    state: int


class Executions:
    """All live executions, and a bounded number of ended ones."""

    def __init__(self, remember: int) -> None:
        self._remember = remember
        self.live: dict[str, LiveExecution] = {}
        self._by_node: dict[str, dict[str, LiveExecution]] = {}
        self._ended: OrderedDict[str, EndedExecution] = OrderedDict()

    def add(self, execution: LiveExecution) -> None:
        """Start tracking an execution."""
        self.live[execution.id] = execution
        self._by_node.setdefault(execution.node, {})[execution.id] = execution

    def end(self, execution: LiveExecution, state: int) -> None:
        """Stop tracking an execution; keep its end."""
        execution.state = state
        del self.live[execution.id]
        on_node = self._by_node[execution.node]
        del on_node[execution.id]
        if not on_node:
            del self._by_node[execution.node]
        self._note_end(
            execution.id, EndedExecution(execution.job, execution.peer, execution.attempt, state)
        )

    def _note_end(self, name: str, ended: EndedExecution) -> None:
        self._ended[name] = ended
        self._ended.move_to_end(name)
        if len(self._ended) > self._remember:
            self._ended.popitem(last=False)

    def on(self, node: str) -> list[LiveExecution]:
        """Return a node's live executions, oldest first."""
        return list(self._by_node.get(node, {}).values())

    def is_free(self, node: str) -> bool:
        """Tell whether a node has no live executions."""
        return node not in self._by_node

    def taken(self, node: str) -> Capacity:
        """Return the capacity that a node's live executions use."""
        used = NOTHING
        for execution in self._by_node.get(node, {}).values():
            if execution.needs is not NOTHING:
                used = used.plus(execution.needs)
        return used

    def late(self, name: str, node: str, state: int) -> EndedExecution | None:
        """Return an ended execution if this message about it is new, None if it is a replay."""
        ended = self._ended.get(name)
        if ended is None or name_of(ended.peer) != node or ended.state != CANCELLED:
            return None
        self._note_end(name, EndedExecution(ended.job, ended.peer, ended.attempt, state))
        return ended

    def is_known(self, name: str, node: str) -> bool:
        """Whether this execution is or recently was on this node."""
        found = self.live.get(name) or self._ended.get(name)
        return found is not None and name_of(found.peer) == node


# --- results of nodes ---------------------------------------------------------------------------


def outcome(payload: WireObject) -> tuple[int, Body, Fault | None]:
    """Read a result as (compute state, body for the caller, fault)."""
    if isinstance(payload, RunResult):
        fault = answer_of(payload).fault
        return (COMPLETED if fault is None else FAILED), Body("ncl", (dump(payload),)), fault
    if isinstance(payload, ComputeError):
        return FAILED, EMPTY, _failure(payload.Events)
    assert isinstance(payload, BidResult)
    message = "; ".join(e.Message for e in payload.Events or () if e.Message) or "no reason given"
    return BID_REFUSED, EMPTY, Fault(FaultCode.HANDED_BACK, f"bid refused: {message}")


def _failure(events: Iterable[NclEvent] | None) -> Fault:
    """Read the first event: the reason, and whether the job may go to another node."""
    first = next(iter(events or ()), NclEvent())
    details = first.Details or {}
    if details.get("ErrorCode") == HANDED_BACK or first.Message == NODE_RESTART:
        return Fault(FaultCode.HANDED_BACK, first.Message)
    if details.get("ErrorCode") == TOO_LARGE:
        return Fault(FaultCode.TOO_LARGE, first.Message)
    hint = details.get("Hint", "")
    message = f"{first.Message} ({hint})" if hint else first.Message
    return Fault(FaultCode.TASK_FAILED, message or "the node gave no reason")


# --- messages to nodes --------------------------------------------------------------------------


def ask_for_bid(
    work: SendWork, params: dict[str, object], settings: OrchestratorSettings, now: float
) -> AskForBid:
    """Write a dispatch as an execution. The engine is the service, its parameters the call."""
    node = name_of(work.worker)
    job = _job(work, params, settings, now)
    is_fan_out = work.target == "all"
    execution = Execution(
        ID=execution_id(work.job, work.worker, work.attempt),
        Namespace=settings.namespace,
        EvalID=derived_id("v", work.job, work.attempt),
        NodeID=node,
        JobID=job.ID,
        Job=job,
        JobVersion=1,
        AllocatedResources=Allocation({}),
        DesiredState=ExecutionState(PENDING if settings.bids and not is_fan_out else RUN),
        ComputeState=ExecutionState(NEW),
        PublishedResult=SpecConfig(),
        RunOutput=CommandResult(),
        Revision=1,
        CreateTime=job.CreateTime,
        ModifyTime=job.CreateTime,
    )
    return AskForBid(None, execution)


def _job(
    work: SendWork, params: dict[str, object], settings: OrchestratorSettings, now: float
) -> JobSpec:
    at = nanoseconds(now)
    is_fan_out = work.target == "all"
    return JobSpec(
        ID=derived_id("j", work.job),
        Name=work.task or work.service,
        Namespace=settings.namespace,
        Type="ops" if is_fan_out else "batch",
        Count=0 if is_fan_out else 1,
        Constraints=[],
        # Never null: a real node crashes on null `Meta`.
        Meta={
            f"{_RESERVED}orchestrator.id": settings.orchestrator,
            f"{_RESERVED}requester.id": settings.orchestrator,
            META_ATTEMPT: str(work.attempt),
            META_CLIENT: work.client,
            META_JOB: work.job,
            **({META_RESOURCES: work.target} if resources_of(work.target) else {}),
        },
        Labels={},
        Tasks=[_task(work, params, now)],
        Version=1,
        Revision=1,
        CreateTime=at,
        ModifyTime=at,
    )


def _task(work: SendWork, params: dict[str, object], now: float) -> NclTask:
    seconds_left = 0 if work.run_until is None else max(1, round(work.run_until - now))
    return NclTask(
        Name="main",
        Engine=SpecConfig(work.service, params),
        Publisher=SpecConfig(),
        Resources=_resources(work.needs),
        Timeouts=TaskTimeouts(ExecutionTimeout=seconds_left),
    )


def _resources(needs: Capacity) -> TaskResources:
    return TaskResources(
        CPU=f"{round(needs.cpu * 1000)}m" if needs.cpu else "",
        Memory=f"{needs.memory}b" if needs.memory else "",
        Disk=f"{needs.disk}b" if needs.disk else "",
        GPU=str(needs.gpu) if needs.gpu else "",
    )
