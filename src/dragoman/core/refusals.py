"""What somebody may not do: it goes on record, and they are told no in their own words.

The decision was made before; here it only takes effect. Nothing about a refused event changes a
job, except that a worker which may not pass its job on has failed it.
"""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.desk import Desk, dialect_of
from dragoman.core.effects import Asked, Dismiss, SendStatus
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    InputReceived,
    JobCancelled,
    JobForwarded,
    JobSubmitted,
    Noted,
    PeerLeft,
    Refused,
    ReplyKind,
    ReplyReceived,
    ResultRequested,
    WorkerJoined,
)
from dragoman.core.replies import reply_received
from dragoman.core.submissions import refuse
from dragoman.core.workers import lose
from dragoman.model.body import Body
from dragoman.model.names import PeerId
from dragoman.model.record import Kind, Record

#: What each question is answered as.
_ASKED: Final = {
    ResultRequested: Asked.RESULT,
    JobCancelled: Asked.CANCEL,
    InputReceived: Asked.INPUT,
}


def refused(desk: Desk, event: Refused) -> None:
    """Put a refusal on record and tell whoever asked."""
    _REFUSERS[type(event.event)](desk, event, event.event)


def _submission(desk: Desk, refused: Refused, event: JobSubmitted) -> None:
    refuse(desk, event, refused.fault, refused.is_recorded)


def _question(
    desk: Desk, refused: Refused, event: ResultRequested | JobCancelled | InputReceived
) -> None:
    _note(desk, refused, event.client)
    desk.out.append(
        SendStatus(event.client, event.job, _ASKED[type(event)], None, refused.fault, False)
    )


def _of_worker(desk: Desk, refused: Refused, event: WorkerJoined) -> None:
    _end(desk, refused, event.worker)


def _of_peer(desk: Desk, refused: Refused, event: PeerLeft | Noted) -> None:
    if event.peer is not None:
        _end(desk, refused, event.peer)


def _end(desk: Desk, refused: Refused, peer: PeerId) -> None:
    """Let go of a peer that may not be what it says it is."""
    _note(desk, refused, peer)
    if not refused.dismisses:
        return
    worker = desk.registry.workers.get(peer)
    if worker is not None:
        lose(desk, worker, refused.fault.message)
    else:
        desk.out.append(Dismiss(peer, refused.fault.message))


def _forward(desk: Desk, refused: Refused, event: JobForwarded) -> None:
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


def _note(desk: Desk, refused: Refused, peer: PeerId) -> None:
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


_REFUSERS: Final[dict[type, Callable[[Desk, Refused, Any], None]]] = {
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
