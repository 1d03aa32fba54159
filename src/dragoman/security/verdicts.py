"""The two results of the gate: the event with its principal set, or its refusal. Pure."""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.events import (
    EventDenied,
    InputReceived,
    JobCancelled,
    JobSubmitted,
    Noted,
    ResultRequested,
    WorkerJoined,
)
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId, Principal, name_of
from dragoman.model.value import value


@value
class NameTakeover(Fault):
    """A peer used the name of another principal. The owner keeps its session."""


def takeover_of(peer: PeerId, owner: Principal | None) -> NameTakeover:
    """Return the fault for using a peer name that belongs to another principal."""
    message = (
        f"take-over refused: the name {name_of(peer)} belongs to {owner or 'another principal'}"
    )
    return NameTakeover(FaultCode.DENIED, message)


def refused(event: Any, principal: Principal, fault: Fault) -> EventDenied:
    """Return the refusal of a principal's event."""
    # A take-over attempt must not end the owner's session.
    is_theft = isinstance(fault, NameTakeover)
    if hasattr(event, "principal"):
        event = with_principal(event, principal)
    return EventDenied(event, fault, principal, dismisses=not is_theft)


def with_principal(event: object, principal: Principal) -> Any:
    """Set the principal of an event in place: nothing else refers to the event yet."""
    _set_principal[type(event)](event, principal)
    return event


#: Values are frozen for the type checker only; a copy of each event would double the gate's cost.
_set_principal: Final[dict[type, Callable[[object, Principal], None]]] = {
    kind: vars(kind)["principal"].__set__
    for kind in (
        JobSubmitted,
        JobCancelled,
        InputReceived,
        ResultRequested,
        WorkerJoined,
        Noted,
    )
}
