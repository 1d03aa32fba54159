"""`dragoman mesh status`: the neighbours as a table, as JSON, and if there are none."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.conftest import Run

from dragoman import Worker
from dragoman.testing.harness import LocalBroker


@pytest.fixture(scope="module")
def linked() -> Iterator[str]:
    """Return the URL of broker west, whose neighbour east offers math."""
    with LocalBroker("nfp", name="west", listen={"mesh": "tcp://127.0.0.1:0"}) as west:
        dial = {"west": {"url": west.endpoints["mesh"]}}
        with (
            LocalBroker("nfp", name="east", mesh=dial) as east,
            Worker(east.url("nfp"), service="sums", own_process_beats=False),
        ):
            yield west.url("nfp")


def until_linked(run: Run, url: str) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while True:
        _, out, _ = run("mesh", "status", "--url", url, "--json")
        rows = json.loads(out)["neighbours"]
        if rows and rows[0]["offers"]:
            return dict(rows[0])
        assert time.monotonic() < deadline, f"not linked: {out}"


def test_a_neighbour_is_shown_with_its_link_and_what_it_offers(run: Run, linked: str) -> None:
    row = until_linked(run, linked)
    assert (row["broker"], row["state"], row["offers"]) == ("east", "linked", ["sums"])
    code, out, _ = run("mesh", "status", "--url", linked)
    assert code == 0
    assert "this is broker west" in out
    assert "sums" in out


def test_workers_show_a_neighbours_service_as_a_worker(run: Run, linked: str) -> None:
    until_linked(run, linked)
    _, out, _ = run("workers", "--url", linked, "--json")
    (row,) = json.loads(out)
    assert (row["name"], row["dialect"]) == ("east/sums", "mesh")


def test_a_broker_without_a_mesh_says_how_to_link_it(run: Run) -> None:
    code, out, _ = run("mesh", "status")
    assert code == 0
    assert "dragoman mesh --help" in out
