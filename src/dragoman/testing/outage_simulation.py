"""Worlds in which only the broker fails: killed, paused, with a wrong clock or a bad snapshot.

The network and the workers are sound, and workers of every simulated dialect run long jobs. So each
job must run exactly once and succeed, whatever the broker goes through.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from dragoman.core.limits import Limits
from dragoman.dialects.peer_sides import Assigned
from dragoman.model.job import JobState
from dragoman.model.record import Kind
from dragoman.testing.dialect_peers import DialectClient, DialectWorker
from dragoman.testing.dialect_simulation import DialectSimulation
from dragoman.testing.network import MessageFaults
from dragoman.testing.sim_dialects import SIM_DIALECTS
from dragoman.testing.simulation import Outcome

#: How long jobs run, in seconds: some end before, some during and some after an outage.
DURATIONS: Final = (0.2, 2.0, 6.0, 12.0)
#: Mean seconds between two outages.
MEAN: Final = 8.0
#: How long the process stands still, in seconds.
PAUSES: Final = (2.0, 6.0, 16.0, 40.0)
#: By how many seconds the wall clock is wrong.
CLOCK_ERRORS: Final = (-86_400.0, -60.0, 60.0, 172_800.0)
TIMEOUT: Final = 600.0
LIMITS: Final = Limits(retention=1e9)


class SteadyWorker(DialectWorker):
    """A worker without faults. It counts how often it runs each job."""

    runs: Counter[str]
    #: Whether its task returns the same value each time.
    answers_alike = False

    def _value(self, work: Assigned) -> str:
        return "done" if self.answers_alike else super()._value(work)

    def _work(self, work: Assigned) -> None:
        if work.ticket in self.running:
            return
        self.runs[str(work.call.args[0])] += 1
        self.running[work.ticket] = work
        self._send(self.side.take(work.ticket))
        duration = self.world.random.choice(DURATIONS)
        self.world.after(duration, self._finish, self.life, work.ticket)


class OutageSimulation(DialectSimulation):
    """Workers of each dialect, one strict client, and a broker with outages."""

    #: Workers of each dialect.
    workers_each = 1

    def _create_dialect_peers(self, dialects: tuple[str, ...]) -> None:
        self.network.message_faults = MessageFaults()
        self.runs: Counter[str] = Counter()
        # With equal results, one that is sent again can only be told by its request.
        self._answers_alike = self.world.seed % 2 == 0
        self.dialect_workers = [
            self._steady_worker(name, n) for name in dialects for n in range(self.workers_each)
        ]
        self.dialect_clients = [self._strict_client(dialects)]
        world, server = self.world, self.server
        server.limits = LIMITS
        server.wall_error = 0.0
        server.sync_time = 0.002
        for worker in self.dialect_workers:
            world.after(world.random.random(), worker.start)
        self._sometimes(1.0, self.dialect_clients[0].submit_new)
        self._sometimes(MEAN, self._fail)

    def _steady_worker(self, name: str, number: int = 0) -> SteadyWorker:
        worker = SteadyWorker(
            self.world, self.hub, self._dialect(name), f"{name}-w{number}", name, self._new_id
        )
        worker.runs, worker.is_good = self.runs, True
        worker.answers_alike = self._answers_alike
        return worker

    def _strict_client(self, services: tuple[str, ...]) -> DialectClient:
        dialect = SIM_DIALECTS["nfp"]
        client = DialectClient(
            self.world, self.hub, self.oracle, dialect, "client", services, self._new_id
        )
        client.timeouts = (TIMEOUT,)
        client.gets_echoes = not self._answers_alike
        return client

    # --- outages ------------------------------------------------------------------------------

    def _fail(self) -> None:
        outages: tuple[Callable[[], None], ...] = (
            *(self._kill, self._pause, self._set_clock, self._damage_snapshot),
        )
        self.world.random.choice(outages)()

    def _kill(self) -> None:
        if self.server.is_up:
            self.world.fault("broker crash")
            self.server.crash()
            self.world.after(self.world.random.random() * 6, self.server.start)

    def _pause(self) -> None:
        self.world.fault("broker pause")
        self.server.stand_still(self.world.random.choice(PAUSES))

    def _set_clock(self) -> None:
        """Set the wall clock wrong while the broker runs; perhaps it starts with it, too."""
        self.world.fault("clock jump")
        self.server.wall_error = self.world.random.choice(CLOCK_ERRORS)
        if self.world.chance(0.5):
            self._kill()

    def _damage_snapshot(self) -> None:
        """Kill the broker, and damage the snapshot that it would start from."""
        self._kill()
        if self.server.damage_snapshot():
            self.world.fault("snapshot damage")

    def _heal(self) -> None:
        self.server.wall_error = 0.0
        self.chaos.heal()

    # --- promises -----------------------------------------------------------------------------

    def _finish(self) -> None:
        super()._finish()
        self._require_single_runs()
        ended = [r for r in self.server.ledger.read() if r.kind == Kind.ENDED]
        failed = [f"{r.job}: {r.state} {r.detail}" for r in ended if r.state != JobState.SUCCEEDED]
        self.oracle.require(not failed, f"did not succeed: {failed}")

    def _require_single_runs(self) -> None:
        twice = sorted(question for question, count in self.runs.items() if count > 1)
        self.oracle.require(not twice, f"ran more than once though only the broker failed: {twice}")


def simulate_outages(seed: int, *, every: int = 1, only: tuple[str, ...] = ()) -> Outcome:
    """Run one seed of the outage worlds, optionally with workers of `only` some dialects."""
    return OutageSimulation(seed, every=every, only=only or tuple(SIM_DIALECTS)).run()
