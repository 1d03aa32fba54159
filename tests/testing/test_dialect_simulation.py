"""One seed of the dialect level."""

from dragoman.testing.dialect_simulation import DialectSimulation, simulate_dialects


def test_the_dialects_of_a_world_come_from_its_seed() -> None:
    names = [tuple(w.name for w in DialectSimulation(s).dialect_workers) for s in (5, 5, 6)]
    assert names[0] == names[1] != names[2]


def test_a_spoken_world_is_the_same_each_time() -> None:
    first, second = simulate_dialects(2, every=50), simulate_dialects(2, every=50)
    assert first == second
    assert first.failure == ""
