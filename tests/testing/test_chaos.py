"""Chaos injects faults until the world heals."""

from dragoman.testing.chaos import draw_fault_rates
from dragoman.testing.simulation import FAULT_SECONDS, Simulation
from dragoman.testing.world import World


def test_climates_differ_from_seed_to_seed() -> None:
    climates = [draw_fault_rates(World(seed)) for seed in range(20)]
    assert len({c.message_faults.loss for c in climates}) > 1
    assert {c.stops_on_error for c in climates} == {True, False}


def test_every_kind_of_trouble_strikes_and_ends() -> None:
    kinds: set[str] = set()
    for seed in range(8):
        simulation = Simulation(seed, every=1000)
        simulation._run_until(simulation.world.now + FAULT_SECONDS)
        kinds |= set(simulation.world.faults)
        simulation._heal()
        assert simulation.network.cut_off == set()
        assert not simulation.disk.is_full
        assert simulation.server.is_up
    assert kinds >= {"broker crash", "worker crash", "partition", "disk", "loss", "client crash"}
