"""The simulated world: one clock, one order."""

from dragoman.testing.world import EPOCH, World


def test_things_happen_in_order_of_time_and_then_of_planning() -> None:
    world, seen = World(1), list[str]()
    world.after(2.0, seen.append, "second")
    world.after(1.0, seen.append, "first")
    world.at(EPOCH + 2.0, seen.append, "third")
    while world.step():
        pass
    assert seen == ["first", "second", "third"]
    assert world.now == EPOCH + 2.0
    assert world.steps == 3
    assert world.next_at() == float("inf")


def test_the_same_happenings_have_the_same_trace_and_others_another() -> None:
    first, same, other = World(1), World(1), World(1)
    for world in (first, same):
        world.note("a", "b", "hello")
    other.note("a", "b", "hullo")
    assert first.trace == same.trace != other.trace


def test_chance_comes_from_the_seed() -> None:
    draws = [[World(seed).chance(0.5) for _ in range(1)] for seed in (7, 7)]
    assert draws[0] == draws[1]
    assert not World(1).chance(0.0)


def test_the_diagram_shows_who_said_what_to_whom_and_when() -> None:
    world = World(1)
    world.after(1.5, world.note, "broker", "w1", "SendWork")
    world.step()
    world.fault("loss")
    first, second = world.diagram().splitlines()
    assert first.split() == ["1.5000", "broker", "->", "w1", "SendWork"]
    assert second.split() == ["1.5000", "chaos", "*", "loss"]
    assert world.faults == {"loss": 1}
