"""What the gate makes of an event: let through with its principal on it, or refused. Pure."""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.events import (
    InputReceived,
    JobCancelled,
    JobSubmitted,
    Noted,
    Refused,
    ResultRequested,
    WorkerJoined,
)
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId, Principal, name_of
from dragoman.model.value import value


@value
class Theft(Fault):
    """Somebody used another's name: they are refused, and the other keeps what is its own."""


def theft_of(peer: PeerId, owner: Principal | None) -> Theft:
    """Say whose the name of a peer is."""
    words = f"take-over refused: the name {name_of(peer)} belongs to {owner or 'somebody else'}"
    return Theft(FaultCode.DENIED, words)


def refused(event: Any, principal: Principal, fault: Fault) -> Refused:
    """Refuse what a principal said."""
    # Who speaks in another's name must not end that one's session.
    is_theft = isinstance(fault, Theft)
    if hasattr(event, "principal"):
        event = with_principal(event, principal)
    return Refused(event, fault, principal, dismisses=not is_theft)


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
