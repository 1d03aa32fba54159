"""The dialect without a wire: peers of the core level speak events and hear effects."""

from typing import Any, Final

from dragoman.core.effects import (
    Dismiss,
    Effect,
    SendReply,
    SendStatus,
)
from dragoman.core.events import Event
from dragoman.dialects.base import Send
from dragoman.model.names import name_of
from dragoman.testing.workload import LINK

_CLIENTS: Final = (SendReply, SendStatus)


class PassThroughSide:
    """A broker side that lets events in and effects out as they are."""

    link = LINK

    def receive(self, address: Any, message: Event, now: float) -> list[Event]:
        """Pass an event in."""
        return [message]

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Pass an effect out; its address is the peer's name."""
        if isinstance(effect, _CLIENTS):
            peer = effect.client
        elif isinstance(effect, Dismiss):
            peer = effect.peer
        else:
            peer = effect.worker  # type: ignore[union-attr]
        return [Send(name_of(peer), effect)]  # type: ignore[arg-type]

    def advance(self, now: float) -> list[Event]:
        """Do nothing: there are no timers here."""
        return []

    def next_deadline(self) -> float | None:
        """Never."""
        return None
