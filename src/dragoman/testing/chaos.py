"""Injects faults: broker crashes, partitions, disk failures."""

from collections.abc import Callable
from typing import Final

from dragoman.ledger.disk import FaultyDisk
from dragoman.model.value import value
from dragoman.testing.network import MessageFaults, Network
from dragoman.testing.server import SimServer
from dragoman.testing.world import World


@value
class FaultRates:
    """The fault rates of one world, drawn from its seed."""

    message_faults: MessageFaults
    #: Mean seconds between two faults of each kind.
    broker_crash: float
    partition: float
    disk_failure: float
    stops_on_error: bool
    sync_time: float


#: Rates are drawn from these, so that worlds differ in their mix of faults.
_RATES: Final = (0.0, 0.02, 0.1, 0.2)
_MEANS: Final = (6.0, 15.0, 40.0)


def draw_fault_rates(world: World) -> FaultRates:
    """Draw the fault rates of a world."""
    pick = world.random.choice
    message_faults = MessageFaults(
        loss=pick((0.0, 0.01, 0.05, 0.15)),
        duplication=pick(_RATES),
        delay=pick(_RATES),
        reordering=pick(_RATES),
        latest=pick((0.05, 0.5, 2.0)),
    )
    return FaultRates(
        message_faults,
        broker_crash=pick(_MEANS),
        partition=pick(_MEANS),
        disk_failure=pick(_MEANS),
        stops_on_error=world.chance(0.5),
        sync_time=pick((0.0005, 0.005, 0.05)),
    )


class Chaos:
    """Injects faults until the world heals."""

    def __init__(
        self, world: World, network: Network, server: SimServer, disk: FaultyDisk, rates: FaultRates
    ) -> None:
        self.world = world
        self.network = network
        self.server = server
        self.disk = disk
        self.rates = rates
        server.sync_time = rates.sync_time
        server.stops_on_error = rates.stops_on_error

    def start(self, peers: list[str]) -> None:
        """Schedule the first fault of each kind."""
        self.peers = peers
        self._later(self.rates.broker_crash, self._crash_broker)
        self._later(self.rates.partition, self._cut)
        self._later(self.rates.disk_failure, self._fail_disk)

    def _later(self, mean: float, inject: Callable[[], None]) -> None:
        self.world.after(self.world.random.expovariate(1 / mean), self._inject, mean, inject)

    def _inject(self, mean: float, inject: Callable[[], None]) -> None:
        if self.world.is_faulty:
            inject()
            self._later(mean, inject)

    def _crash_broker(self) -> None:
        if self.server.is_up:
            self.world.fault("broker crash")
            self.server.crash()
            self.world.after(self.world.random.random() * 3, self.server.start)

    def _cut(self) -> None:
        count = self.world.random.randint(1, max(1, len(self.peers) // 2))
        cut = self.world.random.sample(self.peers, count)
        self.world.fault("partition")
        self.network.cut_off.update(cut)
        self.world.after(
            self.world.random.random() * 8, self.network.cut_off.difference_update, cut
        )

    def _fail_disk(self) -> None:
        if self.world.chance(0.5):
            self.disk.eio = 0.3
        else:
            self.disk.is_full = True
        self.world.after(self.world.random.random() * 2, self.repair_disk)

    def repair_disk(self) -> None:
        """End disk failures."""
        self.disk.eio = 0.0
        self.disk.free()

    def heal(self) -> None:
        """End all faults."""
        self.world.is_faulty = False
        self.network.cut_off.clear()
        self.repair_disk()
        self.server.start()
