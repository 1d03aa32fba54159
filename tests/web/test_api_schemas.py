"""Schemas: what the types cannot say is said by hand, and agrees with what is read."""

from typing import Any

import msgspec
import pytest

from dragoman.core.view import ServiceRow, WorkerRow
from dragoman.model.names import ServiceName
from dragoman.model.retry import Retry, read_retry
from dragoman.web.api_schemas import request_schemas, response_schemas, rows_of
from dragoman.web.jobs import JobRequest
from dragoman.web.workers import WorkerReport


def test_rows_are_described_by_their_own_types() -> None:
    found = response_schemas()
    row: dict[str, Any] = msgspec.to_builtins(ServiceRow(ServiceName("s"), 1, 1, 0, 0, 0))
    assert set(found["ServiceRow"]["properties"]) == set(row)
    assert set(found["WorkerRow"]["required"]) <= set(WorkerRow.__annotations__)
    assert rows_of("services", "ServiceRow")["required"] == ["services"]


@pytest.mark.parametrize("name", ["times", "backoff", "factor", "longest", "jitter"])
def test_the_bounds_of_retries_are_those_that_are_checked(name: str) -> None:
    requests = request_schemas((JobRequest, WorkerReport))
    members = requests["JobRequest"]["properties"]["retries"]["anyOf"][1]["properties"]
    bounds = members[name]
    for good in (bounds["minimum"], bounds["maximum"]):
        assert getattr(read_retry({name: good}), name) == good
    for bad in (bounds["minimum"] - 1, bounds["maximum"] + 1):
        with pytest.raises(ValueError, match=name.replace("times", "retries")):
            read_retry({name: bad})


def test_the_members_of_retries_are_all_described() -> None:
    requests = request_schemas((JobRequest, WorkerReport))
    members = requests["JobRequest"]["properties"]["retries"]["anyOf"][1]["properties"]
    assert set(members) == set(Retry.__annotations__)


def test_a_forwarding_report_names_its_service() -> None:
    assert request_schemas((JobRequest, WorkerReport))["WorkerReport"]["then"]["required"] == [
        "service"
    ]
