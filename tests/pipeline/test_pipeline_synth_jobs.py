import numpy as np

from dragoman.pipeline.synth_jobs import CHUNK_JOBS, COLUMNS, COURSES, JobChunks, select
from dragoman.pipeline.synth_world import KIND, build_world

START = 1_000_000_000_000_000


def test_a_chunk_has_all_its_jobs_and_later_ones_come_later() -> None:
    chunks = iter(JobChunks(build_world(), 1, START, 20.0))
    (first, until), (second, _) = next(chunks), next(chunks)
    assert set(first) == set(COLUMNS)
    new = select(first, np.isin(first["kind"], [KIND["submitted"], KIND["refused"]]))
    assert len(new["at"]) == CHUNK_JOBS
    assert second["at"].min() >= until
    assert second["job"].min() == CHUNK_JOBS + 1


def test_records_of_a_job_never_share_an_instant() -> None:
    batch, _ = next(iter(JobChunks(build_world(), 3, START, 20.0)))
    single = select(batch, batch["target"] <= 1)
    single = select(single, single["kind"] != KIND["late"])
    pairs = np.stack([single["job"], single["part"], single["at"]])
    assert np.unique(pairs, axis=1).shape == pairs.shape


def test_the_shares_of_the_courses_add_up_to_a_thousand() -> None:
    assert sum(COURSES.values()) == 1_000
