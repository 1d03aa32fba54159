"""Dialect peers submit and answer in a world without faults."""

import pytest

from dragoman.testing.dialect_peers import DialectClient, DialectWorker
from dragoman.testing.dialect_simulation import DialectSimulation
from dragoman.testing.sim_dialects import SIM_DIALECTS


def calm(*only: str) -> DialectSimulation:
    simulation = DialectSimulation(1, only=only)
    simulation.world.is_faulty = False
    for worker in simulation.dialect_workers:
        worker.is_good = True
    return simulation


@pytest.mark.parametrize("asker", [n for n, t in SIM_DIALECTS.items() if t.has_clients])
@pytest.mark.parametrize("answerer", list(SIM_DIALECTS))
def test_any_client_is_answered_by_any_worker(asker: str, answerer: str) -> None:
    simulation = calm("nfp")
    hub, ids = simulation.hub, simulation._new_id
    worker = DialectWorker(simulation.world, hub, SIM_DIALECTS[answerer], "worker", "solo", ids)
    worker.is_good = True
    worker.start()
    client = DialectClient(
        simulation.world, hub, simulation.oracle, SIM_DIALECTS[asker], "client", ("solo",), ids
    )
    simulation._run_until(simulation.world.now + 3.0)
    client.submit_new()
    assert client.open
    simulation._run_until(simulation.world.now + 20.0)
    assert client.open == {}
    ended = [r for r in simulation.server.ledger.read() if r.kind == "ended"]
    assert [r.state for r in ended] == ["succeeded"]


def test_a_worker_that_crashed_is_deaf_and_starts_anew() -> None:
    simulation = calm("nfp")
    [worker, *_] = simulation.dialect_workers
    simulation._run_until(simulation.world.now + 4.0)
    assert (worker.is_up, worker.life) == (True, 1)
    worker.crash()
    worker.receive([b"anything"])
    assert (worker.is_up, worker.life) == (False, 1)
    worker.start()
    assert (worker.is_up, worker.life) == (True, 2)
