"""The dialect level: clients and workers of every dialect, in their own frames, in one world.

After the trouble every peer connects anew. From then on every job ends, and every client has its
answers, within `LIVENESS` simulated seconds: the longest time-out of the workload (30 s), of the
dialects' own polls and leases, and of memo01's queue, one after the other.
"""

from random import Random
from typing import Any, Final

from dragoman.core.limits import Limits
from dragoman.ledger.disk import FaultyDisk
from dragoman.ledger.memory import MemoryLedger
from dragoman.testing.chaos import Chaos, draw_fault_rates
from dragoman.testing.dialect_peers import DialectClient, DialectWorker
from dragoman.testing.network import Network
from dragoman.testing.oracle import Oracle
from dragoman.testing.server import SimServer
from dragoman.testing.sim_connections import SimHub
from dragoman.testing.sim_dialects import SIM_DIALECTS, make_body_codecs
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
        self.codecs = make_body_codecs()
        self.place = SimHub(world, self.network, self._arrive)
        self.server = SimServer(
            world,
            self.network,
            MemoryLedger(self.disk),
            self._sides,
            self.place.find,
            self.oracle,
            LIMITS,
        )
        self.chaos = Chaos(world, self.network, self.server, self.disk, rates)
        self._speakers(only or self._draw_tongues())

    def _arrive(self, link: str, address: Any, message: Any) -> None:
        self.server.arrive(link, address, message)

    def _draw_tongues(self) -> tuple[str, ...]:
        names = list(SIM_DIALECTS)
        return tuple(self.world.random.sample(names, self.world.random.randint(1, len(names))))

    def _new_id(self) -> str:
        return f"{self._ids.getrandbits(128):032x}"

    def _sides(self) -> dict[str, Any]:
        made = (dialect.broker(self.codecs, self._new_id) for dialect in SIM_DIALECTS.values())
        return {side.link: side for sides in made for side in sides}

    def _speakers(self, tongues: tuple[str, ...]) -> None:
        world, random = self.world, self.world.random
        self.speaking_workers = [
            DialectWorker(
                world, self.place, SIM_DIALECTS[name], f"{name}-w{n}", service, self._new_id
            )
            for name in tongues
            for n, service in enumerate(random.sample(SERVICES, random.randint(1, 2)))
        ]
        askers = [name for name in tongues if SIM_DIALECTS[name].client is not None] or ["nfp"]
        self.speaking_clients = [
            DialectClient(
                world,
                self.place,
                self.oracle,
                SIM_DIALECTS[name],
                f"{name}-c",
                SERVICES,
                self._new_id,
            )
            for name in askers
        ]
        self._keep_order(self.speaking_workers)
        self._keep_order(self.speaking_clients)
        self.chaos.start([p.name for p in self.speaking_workers])
        for worker in self.speaking_workers:
            world.after(random.random() * 3, worker.start)
            self._sometimes(10.0, self._disturb_speaker, worker)
        for client in self.speaking_clients:
            self._sometimes(1.0, client.ask)
            self._sometimes(5.0, client.meddle)
            self._sometimes(20.0, self._vanish, client)

    def _keep_order(self, peers: list[DialectWorker] | list[DialectClient]) -> None:
        """Give those a connection whose dialect relies on one."""
        self.network.connected.update(p.name for p in peers if p.dialect.needs_order)

    def _disturb_speaker(self, worker: DialectWorker) -> None:
        if self.world.chance(0.7):
            self.world.fault("worker crash")
            worker.crash()
        else:
            worker.leave()
        self.world.after(self.world.random.random() * 6, worker.start)

    def _vanish(self, client: DialectClient) -> None:
        self.world.fault("client crash")
        client.vanish()
        self.world.after(self.world.random.random() * 5, client.come_back)

    def _heal(self) -> None:
        self.chaos.heal()
        for worker in self.speaking_workers:
            worker.crash()
            worker.is_good = True
            self.world.after(0.5, worker.start)
        for n, service in enumerate(SERVICES):
            more = DialectWorker(
                self.world, self.place, SIM_DIALECTS["nfp"], f"heal-{n}", service, self._new_id
            )
            more.is_good = True
            self.world.after(1.0, more.start)
        for client in self.speaking_clients:
            client.vanish()
            client.come_back()

    def waiting(self) -> dict[str, list[str]]:
        """Return what clients still wait for."""
        return {c.name: list(c.open) for c in self.speaking_clients if c.open}


def simulate_dialects(seed: int, *, every: int = 1, only: tuple[str, ...] = ()) -> Outcome:
    """Run one seed of the dialect level; `only` some dialects."""
    return DialectSimulation(seed, every=every, only=only).run()
