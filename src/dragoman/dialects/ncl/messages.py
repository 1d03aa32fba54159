"""The payloads of NCL messages by type name. Members and their order follow the wire."""

from typing import Final

from msgspec import field

from dragoman.dialects.ncl import models
from dragoman.dialects.ncl.models import (
    CommandResult,
    NclEvent,
    Resources,
    SpecConfig,
    Time,
    Unsigned,
    WireObject,
    always,
)

# --- control plane ------------------------------------------------------------------------------


class HandshakeRequest(WireObject):
    """A node requests a session."""

    NodeInfo: models.NodeInfo = field(default_factory=models.NodeInfo)
    StartTime: Time = always("0001-01-01T00:00:00Z")
    LastOrchestratorSeqNum: Unsigned = always(0)


class HandshakeResponse(WireObject):
    """The orchestrator accepts or refuses. The last member is the document's starting sequence."""

    accepted: bool = always(False)
    reason: str = ""
    LastComputeSeqNum: Unsigned = always(0)
    LastOrchestratorSeqNum: Unsigned = always(0)


class HeartbeatRequest(WireObject):
    """A node reports its free capacity and its last received position."""

    NodeID: str = always("")
    AvailableCapacity: Resources = field(default_factory=Resources)
    QueueUsedCapacity: Resources = field(default_factory=Resources)
    LastOrchestratorSeqNum: Unsigned = always(0)


class HeartbeatResponse(WireObject):
    """The orchestrator confirms a heartbeat."""

    LastComputeSeqNum: Unsigned = always(0)


class UpdateNodeInfoRequest(WireObject):
    """A node reports a changed description."""

    NodeInfo: models.NodeInfo = field(default_factory=models.NodeInfo)


class UpdateNodeInfoResponse(WireObject):
    """The orchestrator accepts or refuses the change."""

    accepted: bool = always(False)
    reason: str = ""


class ShutdownNoticeRequest(WireObject):
    """A node shuts down."""

    NodeID: str = always("")
    Reason: str = ""
    LastOrchestratorSeqNum: Unsigned = always(0)


class ShutdownNoticeResponse(WireObject):
    """The orchestrator confirms a shutdown notice."""

    LastComputeSeqNum: Unsigned = always(0)


class BacError(WireObject):
    """A request failed."""

    Cause: str = always("")
    Hint: str = always("")
    Retryable: bool = always(False)
    FailsExecution: bool = always(False)
    Component: str = always("")
    HTTPStatusCode: int = always(0)
    Details: dict[str, object] | None = always(None)
    Code: str = always("")


# --- data plane, to the node --------------------------------------------------------------------


class AskForBid(WireObject):
    """Asks for a bid on an execution. With desired state Running, starts it without a bid."""

    Events: list[NclEvent] | None = always(None)
    Execution: models.Execution = field(default_factory=models.Execution)


class BidAccepted(WireObject):
    """Accepts a bid: the node runs the execution."""

    Events: list[NclEvent] | None = always(None)
    ExecutionID: str = always("")
    Accepted: bool = always(True)


class BidRejected(WireObject):
    """Rejects a bid: the node drops the execution."""

    Events: list[NclEvent] | None = always(None)
    ExecutionID: str = always("")


class CancelExecution(WireObject):
    """Cancels an execution. There is no confirmation."""

    Events: list[NclEvent] | None = always(None)
    ExecutionID: str = always("")


# --- data plane, from the node ------------------------------------------------------------------


class BidResult(WireObject):
    """A node offers or refuses to run an execution."""

    ExecutionID: str = always("")
    JobID: str = always("")
    JobType: str = always("")
    Events: list[NclEvent] | None = always(None)
    Accepted: bool = always(False)


class RunResult(WireObject):
    """An execution completed."""

    ExecutionID: str = always("")
    JobID: str = always("")
    JobType: str = always("")
    Events: list[NclEvent] | None = always(None)
    PublishResult: SpecConfig | None = always(None)
    RunCommandResult: CommandResult | None = always(None)


class ComputeError(WireObject):
    """An execution failed; the first event gives the reason."""

    ExecutionID: str = always("")
    JobID: str = always("")
    JobType: str = always("")
    Events: list[NclEvent] | None = always(None)


# --- others -------------------------------------------------------------------------------------


class PreSignURLRequest(WireObject):
    """A node requests a URL to publish a result to."""

    Events: list[NclEvent] | None = always(None)
    ExecutionID: str = always("")
    JobID: str = always("")


class PreSignURLResponse(WireObject):
    """The URL to publish to."""

    JobType: str = always("")
    Events: list[NclEvent] | None = always(None)
    ExecutionID: str = always("")
    JobID: str = always("")
    PreSignedURL: str = always("")


class LegacyHeartbeat(WireObject):
    """The heartbeat of version 1.5, the only legacy message in an envelope."""

    NodeID: str = always("")
    Sequence: Unsigned = always(0)


TYPES: Final[dict[str, type[WireObject]]] = {
    "transport.HandshakeRequest": HandshakeRequest,
    "transport.HandshakeResponse": HandshakeResponse,
    "transport.HeartbeatRequest": HeartbeatRequest,
    "transport.HeartbeatResponse": HeartbeatResponse,
    "transport.UpdateNodeInfoRequest": UpdateNodeInfoRequest,
    "transport.UpdateNodeInfoResponse": UpdateNodeInfoResponse,
    "transport.ShutdownNoticeRequest": ShutdownNoticeRequest,
    "transport.ShutdownNoticeResponse": ShutdownNoticeResponse,
    "AskForBid": AskForBid,
    "BidAccepted": BidAccepted,
    "BidRejected": BidRejected,
    "CancelExecution": CancelExecution,
    "BidResult": BidResult,
    "RunResult": RunResult,
    "ComputeError": ComputeError,
    "managedPublisher.PreSignURLRequest": PreSignURLRequest,
    "managedPublisher.PreSignURLResponse": PreSignURLResponse,
    "BacError": BacError,
    "heartbeat": LegacyHeartbeat,
}

NAMES: Final[dict[type[WireObject], str]] = {kind: name for name, kind in TYPES.items()}
