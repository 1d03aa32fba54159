"""The simulated network: delay, loss, duplication, reordering and partitions.

Messages between two peers keep their order unless a fault reorders them. A peer that is cut off
neither sends nor receives, and gets no error.
"""

from collections.abc import Callable
from typing import Any, Final

from dragoman.model.value import value
from dragoman.testing.world import World

#: Delay of a message without faults, in seconds.
LATENCY: Final = 0.001


@value
class MessageFaults:
    """The probability of each message fault, and the largest delay."""

    loss: float = 0.0
    duplication: float = 0.0
    delay: float = 0.0
    reordering: float = 0.0
    latest: float = 2.0


class Network:
    """Carries messages between peers and the broker. `deliver` is called on arrival."""

    def __init__(self, world: World, message_faults: MessageFaults) -> None:
        self.world = world
        self.message_faults = message_faults
        self.cut_off: set[str] = set()
        #: Peers whose protocol relies on a connection: no reordering, no duplication.
        self.connected: set[str] = set()
        #: (from, to) -> when the last message that keeps its order arrives
        self._busy_until: dict[tuple[str, str], float] = {}

    def send(
        self, source: str, destination: str, deliver: Callable[[Any], None], message: object
    ) -> None:
        """Send one message, subject to faults."""
        world, message_faults = self.world, self.message_faults
        if not world.is_faulty:
            self._carry(source, destination, deliver, message, LATENCY, in_order=True)
            return
        if world.chance(message_faults.loss):
            world.fault("loss")
            return
        keeps_order = source in self.connected or destination in self.connected
        delay, in_order = LATENCY * (1 + world.random.random()), True
        if world.chance(message_faults.delay):
            world.fault("delay")
            delay += world.random.random() * message_faults.latest
        if not keeps_order and world.chance(message_faults.reordering):
            world.fault("reordering")
            delay, in_order = delay + world.random.random() * message_faults.latest, False
        self._carry(source, destination, deliver, message, delay, in_order=in_order)
        if not keeps_order and world.chance(message_faults.duplication):
            world.fault("duplication")
            again = delay + world.random.random() * message_faults.latest
            self._carry(source, destination, deliver, message, again, in_order=False)

    def _carry(
        self,
        source: str,
        destination: str,
        deliver: Callable[[object], None],
        message: object,
        delay: float,
        *,
        in_order: bool,
    ) -> None:
        at = self.world.now + delay
        if in_order:
            at = max(at, self._busy_until.get((source, destination), 0.0))
            self._busy_until[source, destination] = at
        self.world.at(at, self._arrive, source, destination, deliver, message)

    def _arrive(
        self, source: str, destination: str, deliver: Callable[[object], None], message: object
    ) -> None:
        if source not in self.cut_off and destination not in self.cut_off:
            deliver(message)
