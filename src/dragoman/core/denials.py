"""Denials: record an event that the gate denied, and answer its peer in its own protocol.

The gate has decided; this module carries it out. A denied event changes no job, with one exception:
a worker that may not forward its job has failed it.
"""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.effects import Dismiss, RequestKind, SendStatus
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    EventDenied,
    InputReceived,
    JobCancelled,
    JobForwarded,
    JobSubmitted,
    Noted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    ResultRequested,
    WorkerJoined,
)
from dragoman.core.replies import reply_received
from dragoman.core.state import BrokerState, dialect_of
from dragoman.core.submissions import refuse
from dragoman.core.workers import dismiss_worker
from dragoman.model.body import Body
from dragoman.model.names import PeerId
from dragoman.model.record import Kind

#: The kind of request that each event is.
_REQUEST_KINDS: Final = {
    ResultRequested: RequestKind.RESULT,
    JobCancelled: RequestKind.CANCEL,
    InputReceived: RequestKind.INPUT,
}


def event_denied(state: BrokerState, event: EventDenied) -> None:
    """Record a denial and tell the peer."""
    _HANDLERS[type(event.event)](state, event, event.event)


def _deny_submission(state: BrokerState, denied: EventDenied, event: JobSubmitted) -> None:
    refuse(state, event, denied.fault, denied.is_recorded)


def _deny_request(
    state: BrokerState, denied: EventDenied, event: ResultRequested | JobCancelled | InputReceived
) -> None:
    _record_denial(state, denied, event.client)
    state.out.append(
        SendStatus(event.client, event.job, _REQUEST_KINDS[type(event)], None, denied.fault, False)
    )


def _deny_worker(state: BrokerState, denied: EventDenied, event: WorkerJoined) -> None:
    _end_session(state, denied, event.worker)


def _deny_peer(state: BrokerState, denied: EventDenied, event: PeerLeft | Noted) -> None:
    if event.peer is not None:
        _end_session(state, denied, event.peer)


def _end_session(state: BrokerState, denied: EventDenied, peer: PeerId) -> None:
    """End the session of a denied peer, unless another peer used its name."""
    _record_denial(state, denied, peer)
    if not denied.dismisses:
        return
    worker = state.registry.workers.get(peer)
    if worker is not None:
        dismiss_worker(state, worker, denied.fault.message)
    else:
        state.out.append(Dismiss(peer, denied.fault.message))


def _deny_forward(state: BrokerState, denied: EventDenied, event: JobForwarded) -> None:
    """Fail a job whose worker may not forward it to that service."""
    _record_denial(state, denied, event.worker)
    if denied.dismisses:
        failed = ReplyReceived(
            event.worker,
            event.job,
            ReplyKind.FINAL,
            fault=denied.fault,
            attempt=event.attempt,
        )
        reply_received(state, failed)


def _record_denial(state: BrokerState, denied: EventDenied, peer: PeerId) -> None:
    if not denied.is_recorded:
        return
    event: object = denied.event
    body: Body | None = getattr(event, "body", None)
    state.record(
        Kind.DENIED,
        failure=denied.fault,
        job=getattr(event, "job", None) or "",
        service=getattr(event, "service", None) or "",
        task=getattr(event, "task", ""),
        worker=getattr(event, "name", ""),
        peer=peer,
        principal=denied.principal,
        dialect=getattr(event, "dialect", "") or dialect_of(peer),
        digest=body.digest() if body is not None and body.parts else "",
    )


_HANDLERS: Final[dict[type, Callable[[BrokerState, EventDenied, Any], None]]] = {
    JobSubmitted: _deny_submission,
    JobCancelled: _deny_request,
    InputReceived: _deny_request,
    ResultRequested: _deny_request,
    WorkerJoined: _deny_worker,
    CreditGranted: _deny_worker,
    BeatReceived: _deny_worker,
    ReplyReceived: _deny_worker,
    JobForwarded: _deny_forward,
    PeerLeft: _deny_peer,
    Noted: _deny_peer,
}
