"""The labels of a worker."""

from dragoman.model.labels import ANNOUNCED, PREFETCH
from dragoman.sdk.worker_labels import worker_labels


def test_a_worker_announces_its_resources_and_how_many_jobs_may_wait() -> None:
    labels = worker_labels({"site": "a"}, ["r1", "r2"], 4, None)
    assert labels["site"] == "a"
    assert labels["agent"] == "dragoman"
    assert labels[PREFETCH] == "32"
    assert "r1" in labels[ANNOUNCED]


def test_no_prefetch_and_no_resources_are_no_labels() -> None:
    assert worker_labels(None, [], 4, 0) == {"agent": "dragoman"}
