"""The executions of a compute node: bids, runs, results.

    state          on                          then
    -----          --                          ----
    (unknown)      ask, desired Pending        BID_OFFERED and a bid, or BID_REFUSED and a refusal
    (unknown)      ask, desired Running        BID_ACCEPTED: work; or BID_REFUSED and a refusal
    BID_OFFERED    bid accepted                BID_ACCEPTED: work
    BID_OFFERED    bid rejected                BID_REJECTED
    any live       cancel                      CANCELLED, the task is stopped; nothing is sent
    any live       finished                    COMPLETED or FAILED, and the result
    any other pair                             nothing: a replay never runs anything twice

The execution's id and state decide what a message does. Sequence numbers do not.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from dragoman.dialects.base import check_result_size
from dragoman.dialects.ncl.body_codec import Printed, call_of, result_of
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.executions import (
    HANDED_BACK,
    META_CLIENT,
    META_JOB,
    META_RESOURCES,
    NODE_RESTART,
    TOO_LARGE,
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
from dragoman.model.content import Answer, Call, ResultTooLarge, Unmappable
from dragoman.model.names import JobId
from dragoman.model.target import resources_of as resources_in

#: Upstream's environment variables for the partition of a task.
PARTITION_INDEX: Final = "BACALHAU_PARTITION_INDEX"
PARTITION_COUNT: Final = "BACALHAU_PARTITION_COUNT"
#: Job types that run once on every node.
_UNPARTITIONED: Final = frozenset({"ops", "daemon"})
#: Publisher types that need no publishing: the value is in the result itself.
PUBLISHERS: Final = ("", "noop")
_JOB_TYPES: Final = frozenset({"batch", "ops", "service", "daemon"})


class BidRefused(Exception):
    """This node refuses an execution. The message is the reason."""


class Compute:
    """The executions of one node. `publish` stores a message and queues it for sending."""

    def __init__(
        self,
        services: tuple[str, ...],
        slots: int,
        capacity: Capacity,
        store: NodeStore,
        publish: Callable[[WireObject], None],
        queue_capacity: int = 0,
        result_limit: int = 1024 * 1024,
    ) -> None:
        self._services = {name.lower(): name for name in services}
        self.slots = slots
        self._capacity = capacity
        self._store = store
        self._publish = publish
        self._queue_capacity = queue_capacity
        self._result_limit = result_limit
        #: Capacity that each live execution needs, from its bid to its end.
        self._needs: dict[str, Capacity] = {}
        #: Accepted executions in order. The SDK runs the first `slots` of them, the rest wait.
        self._accepted: dict[str, None] = {}
        self._printed: dict[str, Printed] = {}
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
        """Handle one message. Messages may arrive in any order and more than once."""
        return self._handlers[type(payload)](payload, now)

    def find(self, name: str) -> StoredExecution | None:
        """Return a known execution."""
        return self._store.executions.get(name)

    @property
    def live(self) -> int:
        """The number of executions that have not ended."""
        return len(self._needs)

    @property
    def running(self) -> int:
        """The number of executions that run."""
        return min(len(self._accepted), self.slots)

    @property
    def enqueued(self) -> int:
        """The number of accepted executions that wait for a slot."""
        return len(self._accepted) - self.running

    @property
    def free(self) -> Resources:
        """The capacity that no running execution uses."""
        running = islice(self._accepted, self.slots)
        return resources_of(self._capacity.minus(self._sum(running)))

    @property
    def queue_used(self) -> Resources:
        """The capacity that the enqueued executions need."""
        return resources_of(self._sum(islice(self._accepted, self.slots, None)))

    def _sum(self, names: Iterable[str]) -> Capacity:
        total = NOTHING
        for name in names:
            total = total.plus(self._needs[name])
        return total

    # --- messages -------------------------------------------------------------------------------

    def _ask_for_bid(self, ask: AskForBid, now: float) -> list[WorkerNotice]:
        spec = ask.Execution
        if not spec.ID or spec.ID in self._store.executions:
            return []
        job = spec.Job
        stored = StoredExecution(spec.ID, spec.JobID, job.Type if job else "", BID_OFFERED)
        stored.spec = spec
        try:
            work = self._work(spec)
            needs = self._fit(_task_of(spec))
        except (BidRefused, Unmappable) as reason:
            self._refuse(stored, str(reason), now)
            return []
        self._needs[stored.id] = needs
        if spec.DesiredState.StateType == RUN:
            # Desired state Running: the work starts without a bid.
            stored.state = BID_ACCEPTED
            self._accepted[stored.id] = None
            self._store.add(stored)
            return [work]
        self._store.add(stored)
        self._publish(BidResult(stored.id, stored.job, stored.kind, None, True))
        return []

    def _refuse(self, stored: StoredExecution, reason: str, now: float) -> None:
        stored.state = BID_REFUSED
        self._store.add(stored)
        events = [NclEvent(f"rejected bid: {reason}", "Exec Scanning", time_text(now))]
        self._publish(BidResult(stored.id, stored.job, stored.kind, events, False))

    def _work(self, spec: Execution) -> Assigned:
        """Return an execution as an assignment for the SDK. Raises `BidRefused`."""
        job, task = spec.Job, _task_of(spec)
        if job is None or job.Type not in _JOB_TYPES:
            raise BidRefused(f"unknown job type {job.Type if job else ''!r}")
        service = self._services.get(task.Engine.Type.lower())
        if service is None:
            raise BidRefused(f"this node has no engine {task.Engine.Type!r}")
        if task.Publisher.Type.lower() not in PUBLISHERS:
            raise BidRefused(f"this node has no publisher {task.Publisher.Type!r}")
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
            resources_in(meta.get(META_RESOURCES) or ""),
        )

    def _fit(self, task: NclTask) -> Capacity:
        """Return the capacity a task needs. Raises `BidRefused` if this node has too little."""
        needs = needs_of(task.Resources)
        if not self._capacity.holds(needs):
            raise BidRefused("not enough capacity: it needs more than this node has")
        if self.live >= self.slots + self._queue_capacity:
            limits = f"{self.slots} slots, {self._queue_capacity} places in the queue"
            raise BidRefused(f"not enough capacity: the queue is full ({limits})")
        return needs

    def _bid_accepted(self, message: BidAccepted, now: float) -> list[WorkerNotice]:
        stored = self.find(message.ExecutionID)
        if stored is None or stored.state != BID_OFFERED or stored.spec is None:
            return []
        self._store.set_state(stored, BID_ACCEPTED)
        self._accepted[stored.id] = None
        return [self._work(stored.spec)]

    def _bid_rejected(self, message: BidRejected, now: float) -> list[WorkerNotice]:
        stored = self.find(message.ExecutionID)
        if stored is not None and stored.state == BID_OFFERED:
            self._end(stored, BID_REJECTED)
        return []

    def _cancel(self, message: CancelExecution, now: float) -> list[WorkerNotice]:
        stored = self.find(message.ExecutionID)
        if stored is None or stored.is_over:
            return []
        was_work = stored.state in (BID_ACCEPTED, RUNNING)
        self._end(stored, CANCELLED)
        return [Stop(stored.id)] if was_work else []

    # --- results --------------------------------------------------------------------------------

    def begin(self, name: str) -> None:
        """Record that an execution runs."""
        stored = self.find(name)
        if stored is not None and stored.state == BID_ACCEPTED:
            self.runs += 1
            self._store.set_state(stored, RUNNING)

    def output(self, name: str, text: str, is_error: bool) -> None:
        """Keep the beginning of what an execution prints, for its result."""
        if name in self._accepted:
            self._printed.setdefault(name, Printed()).add(text, is_error)

    def finish(self, name: str, answer: Answer, now: float) -> bool:
        """Report the result. Returns False if the execution had ended already (a cancel)."""
        stored = self.find(name)
        if stored is None or stored.is_over:
            return False
        if answer.fault is not None:
            words = answer.fault.message or answer.fault.code.value
            self._fail(stored, words, {"IsError": "true"}, now)
            return True
        result = result_of(answer, self._printed.get(name))
        result.ExecutionID, result.JobID, result.JobType = stored.id, stored.job, stored.kind
        result.Events = [NclEvent("Completed successfully", "Execution", time_text(now))]
        try:
            check_result_size([dump(result)], self._result_limit)
        except ResultTooLarge as error:
            self._fail(stored, str(error), {"IsError": "true", "ErrorCode": TOO_LARGE}, now)
            return True
        self._end(stored, COMPLETED)
        self._publish(result)
        return True

    def hand_back(self, name: str, now: float) -> bool:
        """Hand an execution back unrun, so that it can go to another node."""
        stored = self.find(name)
        if stored is None or stored.is_over:
            return False
        details = {"ErrorCode": HANDED_BACK, "Retryable": "true"}
        self._fail(stored, "handed back unrun", details, now)
        return True

    def restart(self, now: float) -> list[Assigned]:
        """After a restart of this process, restart or fail each execution that had not ended."""
        restarted = []
        for stored in [h for h in self._store.executions.values() if not h.is_over]:
            if (
                stored.kind in RESTARTED_JOB_TYPES
                and stored.spec is not None
                and stored.state != BID_OFFERED
            ):
                self._needs[stored.id] = needs_of(_task_of(stored.spec).Resources)
                self._accepted[stored.id] = None
                self._store.set_state(stored, BID_ACCEPTED)
                restarted.append(self._work(stored.spec))
            else:
                self._fail(stored, NODE_RESTART, {"FailsExecution": "true"}, now)
        return restarted

    def _fail(
        self, stored: StoredExecution, words: str, details: dict[str, str], now: float
    ) -> None:
        self.failures += 1
        self._end(stored, FAILED)
        events = [NclEvent(words, "Running Execution", time_text(now), details)]
        self._publish(ComputeError(stored.id, stored.job, stored.kind, events))

    def _end(self, stored: StoredExecution, state: int) -> None:
        self._needs.pop(stored.id, None)
        self._accepted.pop(stored.id, None)
        self._printed.pop(stored.id, None)
        self._store.set_state(stored, state)


def _task_of(spec: Execution) -> NclTask:
    tasks = spec.Job.Tasks if spec.Job is not None else None
    if not tasks or not tasks[0].Engine.Type:
        raise BidRefused("the job has no task with an engine")
    return tasks[0]


def _partition(spec: Execution, job: JobSpec) -> dict[str, str]:
    """Return upstream's partition variables if the job has several partitions."""
    if job.Type in _UNPARTITIONED or (job.Count <= 1 and not spec.PartitionIndex):
        return {}
    if not 0 <= spec.PartitionIndex < max(1, job.Count):
        raise BidRefused(f"partition {spec.PartitionIndex} of a job with a count of {job.Count}")
    return {PARTITION_INDEX: str(spec.PartitionIndex), PARTITION_COUNT: str(job.Count)}


def _with_env(call: Call, env: dict[str, str]) -> Call:
    """Pass the environment of a task as headers: a function has no environment of its own."""
    headers = {**env, **call.headers}
    return Call(call.task, call.args, call.kwargs, call.raw, headers, call.timeout)


def resources_of(capacity: Capacity) -> Resources:
    """Write a capacity in wire form. A whole number of cores has no fraction."""
    cpu = max(0.0, capacity.cpu)
    return Resources(
        int(cpu) if cpu == int(cpu) else round(cpu, 6),
        max(0, capacity.memory),
        max(0, capacity.disk),
        max(0, capacity.gpu),
    )
