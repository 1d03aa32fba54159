"""Measurements as metrics, and their bounds."""

from typing import Any

from dragoman.server.histograms import Histogram
from dragoman.server.job_statistics import ServiceTimes
from dragoman.web.measurements import MOST_SERVICES, measurements, most_queued


class Broker:
    def measured_times(self) -> dict[tuple[str, str], ServiceTimes]:
        times = ServiceTimes()
        times.total.observe(0.002, "j1", 5.0)
        times.attempts = 2
        return {("math", "nfp"): times}

    def measured_counts(self) -> dict[str, Any]:
        bridges = {("nfp", "zss", "failed"): 4}
        return {"faults": {"task_failed": 3}, "bridge_jobs": bridges, "denied": {(): 7}}

    def measured_process(self) -> dict[str, Histogram]:
        return {name: Histogram() for name in ("append", "batch", "lag")}

    def services(self) -> list[dict[str, Any]]:
        return [{"name": "math", "queued": 1, "oldest_age": 9.0}]

    def document(self) -> dict[str, Any]:
        ledger = {"bytes": 10, "disk_free": 5, "disk_total": 50, "unexported": None}
        return {"ledger": ledger, "started_at": 1.0, "memory": 2, "cpu_seconds": 3.0, "dead": 8}


def samples() -> dict[tuple[str, tuple[str, ...]], Any]:
    return {
        (sample.name, tuple(sample.labels.values())): sample
        for family in measurements(Broker())
        for sample in family.samples
    }


def test_what_was_measured_becomes_samples() -> None:
    found = samples()
    assert found["dragoman_attempts_total", ("math", "nfp")].value == 2
    assert found["dragoman_faults_total", ("task_failed",)].value == 3
    assert found["dragoman_bridge_jobs_total", ("nfp", "zss", "failed")].value == 4
    assert found["dragoman_denied_total", ()].value == 7
    assert found["dragoman_dead_letters", ()].value == 8
    assert found["dragoman_service_oldest_seconds", ("math",)].value == 9.0
    assert ("dragoman_ledger_unexported_records", ()) not in found


def test_a_bucket_names_a_job() -> None:
    bucket = samples()["dragoman_job_total_seconds_bucket", ("math", "nfp", "0.0025")]
    assert (bucket.value, bucket.exemplar.labels) == (1, {"job": "j1"})


def test_only_the_longest_queues_are_shown() -> None:
    rows = [{"name": f"s{n}", "queued": n} for n in range(MOST_SERVICES + 50)]
    shown = most_queued(rows)
    assert len(shown) == MOST_SERVICES
    assert shown[0]["queued"] == MOST_SERVICES + 49
