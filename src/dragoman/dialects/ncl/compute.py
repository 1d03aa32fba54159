"""Executions as the compute node sees them: bids, runs, results.

    state          on                          then
    -----          --                          ----
    (unknown)      ask, desired Pending        BID_OFFERED and a bid, or BID_REFUSED and a refusal
    (unknown)      ask, desired Running        BID_ACCEPTED: work; or BID_REFUSED and a refusal
    BID_OFFERED    bid accepted                BID_ACCEPTED: work
    BID_OFFERED    bid rejected                BID_REJECTED
    any live       cancel                      CANCELLED, stop what runs; nothing is sent
    any live       finished                    COMPLETED or FAILED, and the result
    any other pair                             nothing: a replay never runs anything twice

Everything that decides is the execution's id and state; sequence numbers decide nothing.
"""

from collections.abc import Callable
from typing import Final

from dragoman.dialects.ncl.body_codec import call_of, result_of
from dragoman.dialects.ncl.executions import (
    HANDED_BACK,
    META_CLIENT,
    META_JOB,
    META_RESOURCES,
    NODE_RESTART,
)
from dragoman.dialects.ncl.messages import (
    AskForBid,
    BidAccepted,
    BidRejected,
    BidResult,
    CancelExecution,
    ComputeError,
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
    JobSpec,
    NclEvent,
    NclTask,
    Resources,
    WireObject,
)
from dragoman.dialects.ncl.quantities import needs_of
from dragoman.dialects.ncl.store import RESTARTED_JOB_TYPES, NodeStore, StoredExecution
from dragoman.dialects.ncl.times import time_text
from dragoman.dialects.peer_sides import Assigned, Stop, WorkerNotice
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.names import JobId
from dragoman.model.target import resources_of as named_in

#: What upstream's nodes tell their tasks about the partition they are.
PARTITION_INDEX: Final = "BACALHAU_PARTITION_INDEX"
PARTITION_COUNT: Final = "BACALHAU_PARTITION_COUNT"
#: Job types that run once on every node.
_UNPARTITIONED: Final = frozenset({"ops", "daemon"})
_JOB_TYPES: Final = frozenset({"batch", "ops", "service", "daemon"})


class BidRefused(Exception):
    """This node will not take that execution; the message is the reason."""


class Compute:
    """The executions of one node. `say` stores a message and sees to it that it is sent."""

    def __init__(
        self,
        services: tuple[str, ...],
        slots: int,
        most: Capacity,
        store: NodeStore,
        say: Callable[[WireObject], None],
    ) -> None:
        self._services = {name.lower(): name for name in services}
        self.slots = slots
        self._most = most
        self._store = store
        self._say = say
        #: What each live execution takes.
        self._needs: dict[str, Capacity] = {}
        self.runs = 0
        self.failures = 0
        self._handlers: dict[type[WireObject], Callable[..., list[WorkerNotice]]] = {
            AskForBid: self._ask_for_bid,
            BidAccepted: self._bid_accepted,
            BidRejected: self._bid_rejected,
            CancelExecution: self._cancel,
        }

    def handles(self, payload: WireObject) -> bool:
        """Whether this is a message to a compute node."""
        return type(payload) in self._handlers

    def receive(self, payload: WireObject, now: float) -> list[WorkerNotice]:
        """Take one message in. Anything may come at any time, and again."""
        return self._handlers[type(payload)](payload, now)

    def find(self, name: str) -> StoredExecution | None:
        """Return a known execution."""
        return self._store.executions.get(name)

    @property
    def live(self) -> int:
        """How many executions it has that are not over."""
        return len(self._needs)

    @property
    def free(self) -> Resources:
        """What is not taken."""
        used = NOTHING
        for needs in self._needs.values():
            used = used.plus(needs)
        return resources_of(self._most.minus(used))

    # --- asked ----------------------------------------------------------------------------------

    def _ask_for_bid(self, ask: AskForBid, now: float) -> list[WorkerNotice]:
        spec = ask.Execution
        if not spec.ID or spec.ID in self._store.executions:
            return []
        job = spec.Job
        held = StoredExecution(spec.ID, spec.JobID, job.Type if job else "", BID_OFFERED)
        held.spec = spec
        try:
            work = self._work(spec)
            needs = self._fit(_task_of(spec))
        except (BidRefused, Unmappable) as reason:
            self._refuse(held, str(reason), now)
            return []
        self._needs[held.id] = needs
        if spec.DesiredState.StateType == RUN:
            # Desired Running: the work begins, and no bid is sent.
            held.state = BID_ACCEPTED
            self._store.learn(held)
            return [work]
        self._store.learn(held)
        self._say(BidResult(held.id, held.job, held.kind, None, True))
        return []

    def _refuse(self, held: StoredExecution, reason: str, now: float) -> None:
        held.state = BID_REFUSED
        self._store.learn(held)
        events = [NclEvent(f"rejected bid: {reason}", "Exec Scanning", time_text(now))]
        self._say(BidResult(held.id, held.job, held.kind, events, False))

    def _work(self, spec: Execution) -> Assigned:
        """Read an execution as work, or refuse it."""
        job, task = spec.Job, _task_of(spec)
        if job is None or job.Type not in _JOB_TYPES:
            raise BidRefused(f"job type {job.Type if job else ''!r} is unknown")
        service = self._services.get(task.Engine.Type.lower())
        if service is None:
            raise BidRefused(f"engine {task.Engine.Type!r} is not here")
        if task.InputSources:
            raise BidRefused("input sources are not supported")
        meta = job.Meta or {}
        limit = task.Timeouts.ExecutionTimeout if task.Timeouts else 0
        call = call_of(task.Engine.Params or {})
        env = {**(task.Env or {}), **_partition(spec, job)}
        if env:
            call = _with_env(call, env)
        return Assigned(
            spec.ID,
            JobId(meta.get(META_JOB) or spec.JobID),
            call,
            service,
            meta.get(META_CLIENT, ""),
            float(limit) or None,
            named_in(meta.get(META_RESOURCES) or ""),
        )

    def _fit(self, task: NclTask) -> Capacity:
        """Return what a task takes, if there is room for it."""
        needs = needs_of(task.Resources)
        if not self._most.holds(needs):
            raise BidRefused("not enough capacity: it needs more than this node has")
        if self.live >= self.slots:
            raise BidRefused(f"not enough capacity: all {self.slots} slots are taken")
        return needs

    def _bid_accepted(self, message: BidAccepted, now: float) -> list[WorkerNotice]:
        held = self.find(message.ExecutionID)
        if held is None or held.state != BID_OFFERED or held.spec is None:
            return []
        self._store.move(held, BID_ACCEPTED)
        return [self._work(held.spec)]

    def _bid_rejected(self, message: BidRejected, now: float) -> list[WorkerNotice]:
        held = self.find(message.ExecutionID)
        if held is not None and held.state == BID_OFFERED:
            self._end(held, BID_REJECTED)
        return []

    def _cancel(self, message: CancelExecution, now: float) -> list[WorkerNotice]:
        held = self.find(message.ExecutionID)
        if held is None or held.is_over:
            return []
        was_work = held.state in (BID_ACCEPTED, RUNNING)
        self._end(held, CANCELLED)
        return [Stop(held.id)] if was_work else []

    # --- done -----------------------------------------------------------------------------------

    def begin(self, name: str) -> None:
        """Note that it runs now."""
        held = self.find(name)
        if held is not None and held.state == BID_ACCEPTED:
            self.runs += 1
            self._store.move(held, RUNNING)

    def finish(self, name: str, answer: Answer, now: float) -> bool:
        """Report how it ended; whether that was news (a cancelled one is over already)."""
        held = self.find(name)
        if held is None or held.is_over:
            return False
        if answer.fault is not None:
            words = answer.fault.message or answer.fault.code.value
            self._fail(held, words, {"IsError": "true"}, now)
            return True
        result = result_of(answer)
        result.ExecutionID, result.JobID, result.JobType = held.id, held.job, held.kind
        result.Events = [NclEvent("Completed successfully", "Execution", time_text(now))]
        self._end(held, COMPLETED)
        self._say(result)
        return True

    def hand_back(self, name: str, now: float) -> bool:
        """Return an execution unrun, so that it may go to another node."""
        held = self.find(name)
        if held is None or held.is_over:
            return False
        details = {"ErrorCode": HANDED_BACK, "Retryable": "true"}
        self._fail(held, "handed back unrun", details, now)
        return True

    def restart(self, now: float) -> list[Assigned]:
        """Settle what a restart of this process interrupted: run it again, or fail it."""
        again = []
        for held in [h for h in self._store.executions.values() if not h.is_over]:
            if (
                held.kind in RESTARTED_JOB_TYPES
                and held.spec is not None
                and held.state != BID_OFFERED
            ):
                self._needs[held.id] = needs_of(_task_of(held.spec).Resources)
                self._store.move(held, BID_ACCEPTED)
                again.append(self._work(held.spec))
            else:
                self._fail(held, NODE_RESTART, {"FailsExecution": "true"}, now)
        return again

    def _fail(self, held: StoredExecution, words: str, details: dict[str, str], now: float) -> None:
        self.failures += 1
        self._end(held, FAILED)
        events = [NclEvent(words, "Running Execution", time_text(now), details)]
        self._say(ComputeError(held.id, held.job, held.kind, events))

    def _end(self, held: StoredExecution, state: int) -> None:
        self._needs.pop(held.id, None)
        self._store.move(held, state)


def _task_of(spec: Execution) -> NclTask:
    tasks = spec.Job.Tasks if spec.Job is not None else None
    if not tasks or not tasks[0].Engine.Type:
        raise BidRefused("there is no task with an engine")
    return tasks[0]


def _partition(spec: Execution, job: JobSpec) -> dict[str, str]:
    """Say which partition of a job this is, in upstream's words, if it has several."""
    if job.Type in _UNPARTITIONED or (job.Count <= 1 and not spec.PartitionIndex):
        return {}
    if not 0 <= spec.PartitionIndex < max(1, job.Count):
        raise BidRefused(f"partition {spec.PartitionIndex} of a job that has {job.Count}")
    return {PARTITION_INDEX: str(spec.PartitionIndex), PARTITION_COUNT: str(job.Count)}


def _with_env(call: Call, env: dict[str, str]) -> Call:
    """Pass a task's environment on as headers; a function has no environment of its own."""
    headers = {**env, **call.headers}
    return Call(call.task, call.args, call.kwargs, call.raw, headers, call.timeout)


def resources_of(capacity: Capacity) -> Resources:
    """Write a capacity as the wire does; an integral number of cores without a fraction."""
    cpu = max(0.0, capacity.cpu)
    return Resources(
        int(cpu) if cpu == int(cpu) else round(cpu, 6),
        max(0, capacity.memory),
        max(0, capacity.disk),
        max(0, capacity.gpu),
    )
