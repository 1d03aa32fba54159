"""What the gate makes of an event: let through with its principal on it, or refused. Pure."""

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
    """Somebody used another's name: they are refused, and the other keeps what is its own."""


def takeover_of(peer: PeerId, owner: Principal | None) -> NameTakeover:
    """Say whose the name of a peer is."""
    words = f"take-over refused: the name {name_of(peer)} belongs to {owner or 'somebody else'}"
    return NameTakeover(FaultCode.DENIED, words)


def refused(event: Any, principal: Principal, fault: Fault) -> EventDenied:
    """Refuse what a principal said."""
    # Who speaks in another's name must not end that one's session.
    is_theft = isinstance(fault, NameTakeover)
    if hasattr(event, "principal"):
        event = with_principal(event, principal)
    return EventDenied(event, fault, principal, dismisses=not is_theft)


def with_principal(event: Any, principal: Principal) -> Any:
    """Return an event of a principal. Nobody has seen the event yet, so it is changed in place."""
    _set_principal[type(event)](event, principal)
    return event


#: Values are frozen for the type checker only; a copy of each event would double the gate's cost.
_set_principal: Final[dict[type, Callable[[Any, Principal], None]]] = {
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
