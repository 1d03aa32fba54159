"""The wire models of nodes, jobs and executions: the members of upstream's JSON objects.

Member names, their odd cases (`address`, `stderr`) and their order follow the wire. A member that
upstream omits when empty has a plain default. A member that is always written has an `always`
default, which the encoder never omits. No class has the name of a member annotated with it:
Python would read the annotation as the member. No behaviour belongs here.
"""

from typing import Annotated, Final, TypeVar

from msgspec import Meta, Struct, field

T = TypeVar("T")

#: Go's zero time as text.
NO_TIME: Final = "0001-01-01T00:00:00Z"
_RFC3339: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"

#: Unsigned 64 bits. Only the lower bound is declared: the codec's bounds have 63 bits.
Unsigned = Annotated[int, Meta(ge=0)]
Time = Annotated[str, Meta(pattern=_RFC3339)]
#: A whole number may arrive as int or float and is written as it arrived.
Number = int | float


def always(default: T) -> T:
    """Give a member a default that the encoder still writes."""
    return field(default_factory=lambda: default)


class WireObject(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One JSON object. Strict: other spellings and unknown members go through `wire.tolerate`."""


class Gpu(WireObject):
    """One graphics processor. Memory in MiB."""

    Index: Unsigned = always(0)
    Name: str = always("")
    Vendor: str = always("")
    Memory: Unsigned = always(0)
    PCIAddress: str = always("")


class Resources(WireObject):
    """CPU cores, memory and disk bytes, GPU count. No resources at all is `{}`."""

    CPU: Number = 0
    Memory: Unsigned = 0
    Disk: Unsigned = 0
    GPU: Unsigned = 0
    GPUs: list[Gpu] | None = None


class ComputeInfo(WireObject):
    """What a node can run and its capacity. `QueueCapacity` is what its queue uses."""

    ExecutionEngines: list[str] | None = always(None)
    Publishers: list[str] | None = always(None)
    StorageSources: list[str] | None = always(None)
    MaxCapacity: Resources = field(default_factory=Resources)
    QueueCapacity: Resources = field(default_factory=Resources)
    AvailableCapacity: Resources = field(default_factory=Resources)
    MaxJobRequirements: Resources = field(default_factory=Resources)
    RunningExecutions: int = always(0)
    EnqueuedExecutions: int = always(0)
    address: str = always("")


class BuildVersionInfo(WireObject):
    """The software version of a node."""

    Major: str = ""
    Minor: str = ""
    GitVersion: str = always("")
    GitCommit: str = always("")
    BuildDate: Time = always(NO_TIME)
    GOOS: str = always("")
    GOARCH: str = always("")


_NODE_TYPES: Final = {"": "", "compute": "Compute", "requester": "Requester"}


class NodeInfo(WireObject):
    """The description of a node."""

    NodeID: str = always("")
    NodeType: str = always("")
    Labels: dict[str, str] | None = always(None)
    SupportedProtocols: list[str] | None = always(None)
    ComputeNodeInfo: ComputeInfo = field(default_factory=ComputeInfo)
    BacalhauVersion: BuildVersionInfo = field(default_factory=BuildVersionInfo)

    def __post_init__(self) -> None:
        """Normalise the case of the node type; an unknown one is a decode error."""
        known = _NODE_TYPES.get(self.NodeType.lower())
        if known is None:
            raise ValueError(f"invalid node type: {self.NodeType}")
        self.NodeType = known


class ConnectionRecord(WireObject):
    """The connection state of a node, as an orchestrator stores it."""

    Status: str = always("")
    LastHeartbeat: Time = always(NO_TIME)
    LastComputeSeqNum: Unsigned = 0
    LastOrchestratorSeqNum: Unsigned = 0
    ConnectedSince: Time = always(NO_TIME)
    DisconnectedSince: Time = always(NO_TIME)
    LastError: str = ""


class NodeState(WireObject):
    """What an orchestrator stores about a node."""

    Info: NodeInfo = field(default_factory=NodeInfo)
    Membership: str = always("")
    Connection: str = always("")
    ConnectionState: ConnectionRecord = field(default_factory=ConnectionRecord)


class SpecConfig(WireObject):
    """A type of engine, publisher or source, with free parameters."""

    Type: str = always("")
    Params: dict[str, object] | None = None


class InputSource(WireObject):
    """Data to mount."""

    Source: SpecConfig = field(default_factory=SpecConfig)
    Alias: str = always("")
    Target: str = always("")


class ResultPath(WireObject):
    """Data to publish."""

    Name: str = always("")
    Path: str = always("")


class TaskResources(WireObject):
    """What a task needs, as text: `500m`, `512mb`, `1`."""

    CPU: str = ""
    Memory: str = ""
    Disk: str = ""
    GPU: str = ""


class Port(WireObject):
    """A port of a task."""

    Name: str = always("")
    Static: int = 0
    Target: int = 0
    HostNetwork: str = ""


class NetworkSpec(WireObject):
    """The network access of a task."""

    Type: str = always("")
    Domains: list[str] | None = None
    Ports: list[Port] | None = None


class TaskTimeouts(WireObject):
    """Timeouts in seconds."""

    ExecutionTimeout: int = 0
    QueueTimeout: int = 0
    TotalTimeout: int = 0


class NclTask(WireObject):
    """What to run."""

    Name: str = always("")
    Engine: SpecConfig = field(default_factory=SpecConfig)
    Publisher: SpecConfig = field(default_factory=SpecConfig)
    Env: dict[str, str] | None = None
    Meta: dict[str, str] | None = None
    InputSources: list[InputSource] | None = None
    ResultPaths: list[ResultPath] | None = None
    Resources: TaskResources | None = None
    Network: NetworkSpec | None = None
    Timeouts: TaskTimeouts | None = None


class Constraint(WireObject):
    """A condition on a node's labels."""

    Key: str = always("")
    Operator: str = always("")
    Values: list[str] | None = None


class NclJobState(WireObject):
    """A job's state; its type is text."""

    StateType: str = always("Pending")
    Message: str = ""
    Details: dict[str, str] | None = None


class JobSpec(WireObject):
    """A job. `Meta` must be an object whenever it is sent: a real node crashes on null."""

    ID: str = always("")
    Name: str = always("")
    Namespace: str = always("")
    Type: str = always("")
    Priority: int = always(0)
    Count: int = always(0)
    Constraints: list[Constraint] | None = always(None)
    Meta: dict[str, str] | None = always(None)
    Labels: dict[str, str] | None = always(None)
    Tasks: list[NclTask] | None = always(None)
    State: NclJobState = field(default_factory=NclJobState)
    Version: Unsigned = always(0)
    Revision: Unsigned = always(0)
    CreateTime: int = always(0)
    ModifyTime: int = always(0)


class ExecutionState(WireObject):
    """An execution's state; its type is a number."""

    StateType: int = always(0)
    Message: str = ""
    Details: dict[str, str] | None = None


class CommandResult(WireObject):
    """The output of a command. Upstream truncates each stream at 2 KB."""

    Stdout: str = always("")
    StdoutTruncated: bool = always(False)
    stderr: str = always("")
    StderrTruncated: bool = always(False)
    ExitCode: int = always(0)
    ErrorMsg: str = always("")


class Allocation(WireObject):
    """Reserved resources by task."""

    Tasks: dict[str, Resources] | None = always(None)


class Execution(WireObject):
    """One job (or partition of it) on one node."""

    ID: str = always("")
    Namespace: str = always("")
    EvalID: str = always("")
    Name: str = always("")
    NodeID: str = always("")
    JobID: str = always("")
    Job: JobSpec | None = None
    JobVersion: Unsigned = always(0)
    AllocatedResources: Allocation = field(default_factory=Allocation)
    DesiredState: ExecutionState = field(default_factory=ExecutionState)
    ComputeState: ExecutionState = field(default_factory=ExecutionState)
    PublishedResult: SpecConfig | None = always(None)
    RunOutput: CommandResult | None = always(None)
    PreviousExecution: str = always("")
    NextExecution: str = always("")
    FollowupEvalID: str = always("")
    PartitionIndex: int = 0
    Revision: Unsigned = always(0)
    CreateTime: int = always(0)
    ModifyTime: int = always(0)


class NclEvent(WireObject):
    """An event in the history of an execution."""

    Message: str = always("")
    Topic: str = always("")
    Timestamp: Time = always(NO_TIME)
    Details: dict[str, str] | None = None


# Desired states.
PENDING: Final = 0
RUN: Final = 1
STOPPED: Final = 2

# Compute states.
NEW: Final = 1
ASK_FOR_BID: Final = 2
BID_OFFERED: Final = 3  #: upstream: AskForBidAccepted
BID_REFUSED: Final = 4  #: upstream: AskForBidRejected
BID_ACCEPTED: Final = 5
RUNNING: Final = 6
PUBLISHING: Final = 7
BID_REJECTED: Final = 8
COMPLETED: Final = 9
FAILED: Final = 10
CANCELLED: Final = 11

TERMINAL: Final = frozenset({BID_REFUSED, BID_REJECTED, COMPLETED, FAILED, CANCELLED})
