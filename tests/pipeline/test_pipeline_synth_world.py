from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.pipeline.synth_world import FAULTS, STATES, build_world


def test_states_and_faults_are_those_of_the_model() -> None:
    assert set(STATES) == {"", *(state.value for state in JobState)}
    assert set(FAULTS) - {""} <= {code.value for code in FaultCode}


def test_tables_of_the_world_fit_each_other() -> None:
    world = build_world()
    assert len(world.workers) == len(world.worker_dialects) == len(world.worker_services)
    assert len(world.clients) == len(world.client_dialects) == len(world.principals)
    assert len(set(world.workers)) == len(world.workers)
    assert world.peers()[1] == "nfp/inventory.read-1"
    assert sum(size for _, size in world.teams) == len(world.workers) - 1


def test_the_first_worker_of_each_service_is_flaky_but_not_the_probe() -> None:
    world = build_world()
    assert [world.workers[w][-2:] for w in world.flaky] == ["-1"] * (len(world.services) - 2)


def test_a_text_gets_one_code() -> None:
    world = build_world()
    assert world.detail("x") == world.detail("x") != world.detail("y")
    assert world.targets[world.target("a,b")] == "a,b"
