"""Worlds in which the disk of the broker stalls, and workers register again meanwhile.

The broker runs on, but what waits for the ledger does not leave: also work, which its worker then
cannot report. Each job must run exactly once and succeed.
"""

from typing import Final

from dragoman.testing.dialect_peers import DialectWorker
from dragoman.testing.outage_simulation import OutageSimulation
from dragoman.testing.simulation import Outcome

#: How long one write of the ledger takes while the disk stalls, in seconds.
STALLS: Final = (0.3, 1.0, 3.0)
#: Seconds that it stalls, and a write of a sound disk.
LASTS: Final = 4.0
USUAL: Final = 0.002
#: Dialects whose workers name the jobs that they hold when they register.
REPORTING: Final = ("nfp", "dcp", "zss", "mdp")


class DiskSimulation(OutageSimulation):
    """A broker whose only fault is its disk."""

    def _fail(self) -> None:
        world = self.world
        world.fault("disk stall")
        self.server.sync_time = world.random.choice(STALLS)
        for worker in self.dialect_workers:
            world.after(world.random.random() * LASTS, self._register_again, worker)
        world.after(LASTS, self._go_on)

    def _go_on(self) -> None:
        """End the stall; perhaps the broker ends with it, and with what it has not written."""
        self.server.sync_time = USUAL
        if self.world.chance(0.5):
            self._kill()

    def _register_again(self, worker: DialectWorker) -> None:
        """Have a worker connect again, as after any lost connection.

        Workers of memo01 and NCL do not register again then: they repeat their open requests.
        """
        if worker.is_up and worker.service in REPORTING:
            worker.connection.close()
            worker.connection.open()
            worker._send(worker.side.join())

    def _heal(self) -> None:
        super()._heal()
        self.server.sync_time = USUAL


def simulate_disk(seed: int, *, every: int = 1, only: tuple[str, ...] = REPORTING) -> Outcome:
    """Run one seed of the worlds whose disk stalls."""
    return DiskSimulation(seed, every=every, only=only).run()
