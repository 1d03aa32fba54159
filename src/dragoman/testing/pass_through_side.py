"""A broker side without a wire: core-level peers send events and receive effects."""

from typing import Final

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
    """A broker side that passes events and effects through unchanged."""

    link = LINK

    def receive(self, address: object, message: Event, now: float) -> list[Event]:
        """Return the event."""
        return [message]

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Return the effect, addressed by the peer's name."""
        if isinstance(effect, _CLIENTS):
            peer = effect.client
        elif isinstance(effect, Dismiss):
            peer = effect.peer
        else:
            peer = effect.worker  # type: ignore[union-attr]
        return [Send(name_of(peer), effect)]  # type: ignore[arg-type]

    def advance(self, now: float) -> list[Event]:
        """Return nothing: there are no timers."""
        return []

    def next_deadline(self) -> float | None:
        """Return None: there are no timers."""
        return None
