"""The broker: events in, effects out.

`handle` is the only mutator. It never raises because of what a peer sent: unknown, late and
duplicate messages become effects or nothing. An exception from here is a bug in the broker.
"""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.cancels import cancel_orphans
from dragoman.core.denials import event_denied
from dragoman.core.dispatch import serve_freed_limits
from dragoman.core.effects import Effect
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    DeadLetterDropped,
    DeliveryFailed,
    DrainRequested,
    Event,
    EventDenied,
    InputReceived,
    JobCancelled,
    JobForwarded,
    JobSubmitted,
    LedgerBlocked,
    Noted,
    PeerLeft,
    ReplyReceived,
    ResourcesDeclared,
    ResourcesSettled,
    ResultForgotten,
    ResultRequested,
    ScheduleDeclared,
    ScheduleTicked,
    ServiceLimited,
    ServicePaused,
    TimeAdvanced,
    WorkerDrained,
    WorkerJoined,
)
from dragoman.core.invariants import check
from dragoman.core.job_store import JobStore
from dragoman.core.limits import Limits
from dragoman.core.ownership import resources_declared, resources_settled
from dragoman.core.queue_control import (
    dead_letter_dropped,
    result_forgotten,
    schedule_declared,
    schedule_ticked,
    service_limited,
    service_paused,
    worker_drained,
)
from dragoman.core.replies import job_forwarded, reply_received
from dragoman.core.state import BrokerState, dialect_of
from dragoman.core.submissions import (
    input_received,
    job_cancelled,
    job_submitted,
    ledger_blocked,
    result_requested,
)
from dragoman.core.timers import time_advanced
from dragoman.core.workers import (
    beat_received,
    credit_granted,
    delivery_failed,
    drain_requested,
    peer_left,
    release_drained_workers,
    worker_joined,
)


class Broker:
    """One broker. Pass a store to continue from where its records ended."""

    def __init__(self, limits: Limits | None = None, store: JobStore | None = None) -> None:
        self.state = BrokerState(limits or Limits(), store or JobStore())
        self.state.now = self.state.store.last_at

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle one event; return its effects, in order."""
        state = self.state
        # The wall clock may go backwards; the broker's never does.
        if now > state.now:
            state.now = now
        out: list[Effect] = []
        state.out = out
        HANDLERS[type(event)](state, event)
        if state.orphaning:
            cancel_orphans(state)
        if state.registry.drained:
            release_drained_workers(state)
        if state.limiters.freed:
            serve_freed_limits(state)
        return out

    def next_deadline(self) -> float | None:
        """Return when `TimeAdvanced` is due next, in seconds since the epoch; None: never."""
        return self.state.deadlines.next_at()

    def validate(self) -> None:
        """Assert every invariant of the state."""
        check(self.state)


def noted(state: BrokerState, event: Noted) -> None:
    """Write a record that changes no job."""
    state.record(
        event.kind,
        body=event.body,
        job=event.job or "",
        service=event.service or "",
        peer=event.peer or "",
        principal=event.principal,
        dialect=event.dialect or (dialect_of(event.peer) if event.peer else ""),
        detail=event.detail,
    )


#: One handler per event type; a test asserts that none is missing.
HANDLERS: Final[dict[type, Callable[[BrokerState, Any], None]]] = {
    JobSubmitted: job_submitted,
    JobCancelled: job_cancelled,
    InputReceived: input_received,
    ResultRequested: result_requested,
    WorkerJoined: worker_joined,
    CreditGranted: credit_granted,
    BeatReceived: beat_received,
    ReplyReceived: reply_received,
    JobForwarded: job_forwarded,
    DeliveryFailed: delivery_failed,
    PeerLeft: peer_left,
    DrainRequested: drain_requested,
    LedgerBlocked: ledger_blocked,
    ResourcesDeclared: resources_declared,
    ResourcesSettled: resources_settled,
    ScheduleDeclared: schedule_declared,
    ScheduleTicked: schedule_ticked,
    ResultForgotten: result_forgotten,
    DeadLetterDropped: dead_letter_dropped,
    ServicePaused: service_paused,
    WorkerDrained: worker_drained,
    ServiceLimited: service_limited,
    Noted: noted,
    EventDenied: event_denied,
    TimeAdvanced: time_advanced,
}
