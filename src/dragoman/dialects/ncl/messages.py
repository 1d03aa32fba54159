"""The payloads of NCL messages by type name. Members and their order are the wire's."""

from typing import Any, Final

from msgspec import field

from dragoman.dialects.ncl import models
from dragoman.dialects.ncl.models import (
    CommandResult,
    Event,
    Resources,
    SpecConfig,
    Time,
    Unsigned,
    Wire,
    always,
)

# --- control plane ------------------------------------------------------------------------------


class HandshakeRequest(Wire):
    """A node wants to connect."""

    NodeInfo: models.NodeInfo = field(default_factory=models.NodeInfo)
    StartTime: Time = always("0001-01-01T00:00:00Z")
    LastOrchestratorSeqNum: Unsigned = always(0)


class HandshakeResponse(Wire):
    """The orchestrator lets it, or not. The last member is the document's starting sequence."""

    accepted: bool = always(False)
    reason: str = ""
    LastComputeSeqNum: Unsigned = always(0)
    LastOrchestratorSeqNum: Unsigned = always(0)


class HeartbeatRequest(Wire):
    """A node is alive, has this much free, and has come this far."""

    NodeID: str = always("")
    AvailableCapacity: Resources = field(default_factory=Resources)
    QueueUsedCapacity: Resources = field(default_factory=Resources)
    LastOrchestratorSeqNum: Unsigned = always(0)


class HeartbeatResponse(Wire):
    """The orchestrator heard it."""

    LastComputeSeqNum: Unsigned = always(0)


class UpdateNodeInfoRequest(Wire):
    """A node has changed."""

    NodeInfo: models.NodeInfo = field(default_factory=models.NodeInfo)


class UpdateNodeInfoResponse(Wire):
    """The orchestrator took the change, or not."""

    accepted: bool = always(False)
    reason: str = ""


class ShutdownNoticeRequest(Wire):
    """A node goes away on purpose."""

    NodeID: str = always("")
    Reason: str = ""
    LastOrchestratorSeqNum: Unsigned = always(0)


class ShutdownNoticeResponse(Wire):
    """The orchestrator heard it."""

    LastComputeSeqNum: Unsigned = always(0)


class BacError(Wire):
    """A request failed."""

    Cause: str = always("")
    Hint: str = always("")
    Retryable: bool = always(False)
    FailsExecution: bool = always(False)
    Component: str = always("")
    HTTPStatusCode: int = always(0)
    Details: dict[str, Any] | None = always(None)
    Code: str = always("")


# --- data plane, to the node --------------------------------------------------------------------


class AskForBid(Wire):
    """Would you run this? With desired state Running: run it."""

    Events: list[Event] | None = always(None)
    Execution: models.Execution = field(default_factory=models.Execution)


class BidAccepted(Wire):
    """Run it."""

    Events: list[Event] | None = always(None)
    ExecutionID: str = always("")
    Accepted: bool = always(True)


class BidRejected(Wire):
    """Do not run it."""

    Events: list[Event] | None = always(None)
    ExecutionID: str = always("")


class CancelExecution(Wire):
    """Stop it. Never confirmed."""

    Events: list[Event] | None = always(None)
    ExecutionID: str = always("")


# --- data plane, from the node ------------------------------------------------------------------


class BidResult(Wire):
    """I would, or I would not."""

    ExecutionID: str = always("")
    JobID: str = always("")
    JobType: str = always("")
    Events: list[Event] | None = always(None)
    Accepted: bool = always(False)


class RunResult(Wire):
    """It ran to its end."""

    ExecutionID: str = always("")
    JobID: str = always("")
    JobType: str = always("")
    Events: list[Event] | None = always(None)
    PublishResult: SpecConfig | None = always(None)
    RunCommandResult: CommandResult | None = always(None)


class ComputeError(Wire):
    """It failed; the first event says why."""

    ExecutionID: str = always("")
    JobID: str = always("")
    JobType: str = always("")
    Events: list[Event] | None = always(None)


# --- others -------------------------------------------------------------------------------------


class PreSignURLRequest(Wire):
    """A node wants a place to publish to."""

    Events: list[Event] | None = always(None)
    ExecutionID: str = always("")
    JobID: str = always("")


class PreSignURLResponse(Wire):
    """Here it is."""

    JobType: str = always("")
    Events: list[Event] | None = always(None)
    ExecutionID: str = always("")
    JobID: str = always("")
    PreSignedURL: str = always("")


class LegacyHeartbeat(Wire):
    """The heartbeat of version 1.5, the only legacy message in an envelope."""

    NodeID: str = always("")
    Sequence: Unsigned = always(0)


TYPES: Final[dict[str, type[Wire]]] = {
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

NAMES: Final[dict[type[Wire], str]] = {kind: name for name, kind in TYPES.items()}
