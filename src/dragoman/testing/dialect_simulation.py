"""The dialect level: clients and workers of every dialect, with real frames, in one world.

After the faults every peer reconnects. Then every job must end and every client must have its
answers within `LIVENESS` simulated seconds. That is the sum of the longest timeout of the workload
(30 s), the dialects' polls and leases, and memo01's queue time.
"""

from random import Random
from typing import Final

from dragoman.core.limits import Limits
from dragoman.dialects.registry import body_codecs
from dragoman.ledger.disk import FaultyDisk
from dragoman.ledger.memory import MemoryLedger
from dragoman.testing.chaos import Chaos, draw_fault_rates
from dragoman.testing.dialect_peers import DialectClient, DialectWorker
from dragoman.testing.network import Network
from dragoman.testing.oracle import Oracle
from dragoman.testing.server import SimServer
from dragoman.testing.sim_connections import SimHub
from dragoman.testing.sim_dialects import SIM_DIALECTS, SimDialect
from dragoman.testing.simulation import Outcome, Simulation
from dragoman.testing.world import World

LIVENESS: Final = 400.0
SERVICES: Final = ("alpha", "beta")
LIMITS: Final = Limits(retention=1e9, recovery_grace=5.0)


class DialectSimulation(Simulation):
    """Peers of several dialects around one broker."""

    liveness = LIVENESS

    def __init__(self, seed: int, *, every: int = 1, only: tuple[str, ...] = ()) -> None:
        self.world = World(seed)
        world = self.world
        self._ids = Random(seed + 2)
        rates = draw_fault_rates(world)
        self.network = Network(world, rates.message_faults)
        self.oracle = Oracle(world, every=every)
        self.disk = FaultyDisk(Random(seed + 1))
        self.codecs = body_codecs()
        self.hub = SimHub(world, self.network, self._arrive)
        self.server = SimServer(
            world,
            self.network,
            MemoryLedger(self.disk),
            self._sides,
            self.hub.find,
            self.oracle,
            LIMITS,
        )
        self.chaos = Chaos(world, self.network, self.server, self.disk, rates)
        self._create_dialect_peers(only or self._draw_dialects())

    def _arrive(self, link: str, address: object, message: object) -> None:
        self.server.arrive(link, address, message)

    def _draw_dialects(self) -> tuple[str, ...]:
        names = list(SIM_DIALECTS)
        return tuple(self.world.random.sample(names, self.world.random.randint(1, len(names))))

    def _dialect(self, name: str) -> SimDialect:
        return SIM_DIALECTS[name]

    def _new_id(self) -> str:
        return f"{self._ids.getrandbits(128):032x}"

    def _sides(self) -> dict[str, object]:
        made = (dialect.broker(self.codecs, self._new_id) for dialect in SIM_DIALECTS.values())
        return {side.link: side for sides in made for side in sides}

    def _create_dialect_peers(self, dialects: tuple[str, ...]) -> None:
        world, random = self.world, self.world.random
        self.dialect_workers = [
            DialectWorker(
                world, self.hub, self._dialect(name), f"{name}-w{n}", service, self._new_id
            )
            for name in dialects
            for n, service in enumerate(random.sample(SERVICES, random.randint(1, 2)))
        ]
        client_names = [name for name in dialects if SIM_DIALECTS[name].has_clients] or ["nfp"]
        self.dialect_clients = [
            DialectClient(
                world,
                self.hub,
                self.oracle,
                self._dialect(name),
                f"{name}-c",
                SERVICES,
                self._new_id,
            )
            for name in client_names
        ]
        self._keep_order(self.dialect_workers)
        self._keep_order(self.dialect_clients)
        self.chaos.start([p.name for p in self.dialect_workers])
        for worker in self.dialect_workers:
            world.after(random.random() * 3, worker.start)
            self._sometimes(10.0, self._disturb_worker, worker)
        for client in self.dialect_clients:
            self._sometimes(1.0, client.submit_new)
            self._sometimes(5.0, client.interfere)
            self._sometimes(20.0, self._vanish, client)

    def _keep_order(self, peers: list[DialectWorker] | list[DialectClient]) -> None:
        """Keep messages in order for peers whose dialect relies on it."""
        self.network.connected.update(p.name for p in peers if p.dialect.needs_order)

    def _disturb_worker(self, worker: DialectWorker) -> None:
        if self.world.chance(0.7):
            self.world.fault("worker crash")
            worker.crash()
        else:
            worker.leave()
        self.world.after(self.world.random.random() * 6, worker.start)

    def _vanish(self, client: DialectClient) -> None:
        self.world.fault("client crash")
        client.disconnect()
        self.world.after(self.world.random.random() * 5, client.reconnect)

    def _heal(self) -> None:
        self.chaos.heal()
        for worker in self.dialect_workers:
            worker.crash()
            worker.is_good = True
            self.world.after(0.5, worker.start)
        for n, service in enumerate(SERVICES):
            more = DialectWorker(
                self.world, self.hub, SIM_DIALECTS["nfp"], f"heal-{n}", service, self._new_id
            )
            more.is_good = True
            self.world.after(1.0, more.start)
        for client in self.dialect_clients:
            client.disconnect()
            client.reconnect()

    def waiting(self) -> dict[str, list[str]]:
        """Return the unanswered jobs of each client."""
        return {c.name: list(c.open) for c in self.dialect_clients if c.open}


def simulate_dialects(seed: int, *, every: int = 1, only: tuple[str, ...] = ()) -> Outcome:
    """Run one seed of the dialect level, optionally with `only` some dialects."""
    return DialectSimulation(seed, every=every, only=only).run()
