"""What somebody may not do: it goes on record, and they are told no in their own words.

The decision was made before; here it only takes effect. Nothing about a refused event changes a
job, except that a worker which may not pass its job on has failed it.
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
from dragoman.model.record import Kind, Record

#: What each question is answered as.
_ASKED: Final = {
    ResultRequested: RequestKind.RESULT,
    JobCancelled: RequestKind.CANCEL,
    InputReceived: RequestKind.INPUT,
}


def refused(desk: BrokerState, event: EventDenied) -> None:
    """Put a refusal on record and tell whoever asked."""
    _REFUSERS[type(event.event)](desk, event, event.event)


def _submission(desk: BrokerState, refused: EventDenied, event: JobSubmitted) -> None:
    refuse(desk, event, refused.fault, refused.is_recorded)


def _question(
    desk: BrokerState, refused: EventDenied, event: ResultRequested | JobCancelled | InputReceived
) -> None:
    _note(desk, refused, event.client)
    desk.out.append(
        SendStatus(event.client, event.job, _ASKED[type(event)], None, refused.fault, False)
    )


def _of_worker(desk: BrokerState, refused: EventDenied, event: WorkerJoined) -> None:
    _end(desk, refused, event.worker)


def _of_peer(desk: BrokerState, refused: EventDenied, event: PeerLeft | Noted) -> None:
    if event.peer is not None:
        _end(desk, refused, event.peer)


def _end(desk: BrokerState, refused: EventDenied, peer: PeerId) -> None:
    """Let go of a peer that may not be what it says it is."""
    _note(desk, refused, peer)
    if not refused.dismisses:
        return
    worker = desk.registry.workers.get(peer)
    if worker is not None:
        dismiss_worker(desk, worker, refused.fault.message)
    else:
        desk.out.append(Dismiss(peer, refused.fault.message))


def _forward(desk: BrokerState, refused: EventDenied, event: JobForwarded) -> None:
    """Fail a job whose worker wanted to pass it on to where it may not."""
    _note(desk, refused, event.worker)
    if refused.dismisses:
        failed = ReplyReceived(
            event.worker,
            event.job,
            ReplyKind.FINAL,
            fault=refused.fault,
            attempt=event.attempt,
        )
        reply_received(desk, failed)


def _note(desk: BrokerState, refused: EventDenied, peer: PeerId) -> None:
    if not refused.is_recorded:
        return
    event: Any = refused.event
    body: Body | None = getattr(event, "body", None)
    desk.record(
        Record(
            desk.next_seq,
            desk.now,
            Kind.DENIED,
            getattr(event, "job", None) or "",
            service=getattr(event, "service", None) or "",
            task=getattr(event, "task", ""),
            worker=getattr(event, "name", ""),
            peer=peer,
            principal=refused.principal,
            dialect=getattr(event, "dialect", "") or dialect_of(peer),
            fault=refused.fault.code,
            detail=refused.fault.message,
            digest=body.digest() if body is not None and body.parts else "",
        )
    )


_REFUSERS: Final[dict[type, Callable[[BrokerState, EventDenied, Any], None]]] = {
    JobSubmitted: _submission,
    JobCancelled: _question,
    InputReceived: _question,
    ResultRequested: _question,
    WorkerJoined: _of_worker,
    CreditGranted: _of_worker,
    BeatReceived: _of_worker,
    ReplyReceived: _of_worker,
    JobForwarded: _forward,
    PeerLeft: _of_peer,
    Noted: _of_peer,
}
