"""Measurements of a broker from outside."""

import os

import pytest

from dragoman.testing.gauges import open_files, parse_metrics, read_metrics, resident_bytes
from dragoman.testing.harness import LocalBroker

TEXT = """# HELP dragoman_jobs_open Jobs not ended
# TYPE dragoman_jobs_open gauge
dragoman_jobs_open 3.0
dragoman_link_received_total{link="nfp"} 12.0
dragoman_workers{dialect="nfp",status="alive"} 1e+03
"""


def test_metrics_are_read_by_name_and_first_label() -> None:
    assert parse_metrics(TEXT) == {
        ("dragoman_jobs_open", ""): 3.0,
        ("dragoman_link_received", "nfp"): 12.0,
        ("dragoman_workers", "nfp"): 1000.0,
    }


@pytest.mark.process
def test_a_live_broker_shows_its_links_and_no_errors() -> None:
    with LocalBroker("http") as broker:
        found = read_metrics(broker.endpoints["http"])
    assert found["dragoman_link_internal_errors", "http"] == 0
    assert ("dragoman_link_received", "http") in found


def test_a_process_has_memory_and_descriptors_and_a_missing_one_has_none() -> None:
    assert resident_bytes(os.getpid()) > 2**20
    assert open_files(os.getpid()) > 2
    assert (resident_bytes(2**30), open_files(2**30)) == (0, 0)
