import itertools

import numpy as np

from dragoman.pipeline.synth_sessions import WorkerSessions, to_batch
from dragoman.pipeline.synth_world import FLAP_EVERY_US, KIND, build_world

START = 1_000_000_000_000_000


def test_all_workers_join_before_the_first_job() -> None:
    world = build_world()
    batch = WorkerSessions(world, START).beginning()
    joined = batch["worker"][batch["kind"] == KIND["joined"]]
    assert sorted(joined.tolist()) == [*range(1, len(world.workers))]
    assert batch["at"].max() < START
    assert batch["kind"][0] == KIND["started"]


def test_adjacent_intervals_miss_and_repeat_no_record() -> None:
    workers = WorkerSessions(build_world(), START)
    edges = [START, START + 123_456_789, START + FLAP_EVERY_US, START + 3 * FLAP_EVERY_US]
    parts = [workers.between(a, b) for a, b in itertools.pairwise(edges)]
    whole = workers.between(edges[0], edges[-1])
    found = np.concatenate([np.stack([p["at"], p["worker"], p["kind"]]) for p in parts], axis=1)
    wanted = np.stack([whole["at"], whole["worker"], whole["kind"]])
    assert sorted(map(tuple, found.T)) == sorted(map(tuple, wanted.T))
    assert found.shape[1] > 0


def test_missing_values_of_a_row_are_zero() -> None:
    assert to_batch([{"at": 5}])["worker"].tolist() == [0]
