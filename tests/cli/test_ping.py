"""`dragoman ping`: the broker answers, a service has a worker."""

import json
import threading

import pytest
from tests.cli.conftest import Run

from dragoman.testing.harness import LocalBroker


def test_a_broker_that_runs_answers(run: Run, url: str) -> None:
    code, out, _ = run("ping")
    assert code == 0
    assert out.startswith(f"{url} answers after ")


def test_a_service_with_workers_is_counted(run: Run) -> None:
    code, out, _ = run("ping", "math", "--json")
    assert (code, json.loads(out)["workers"]) == (0, 1)


def test_a_service_without_workers_is_code_5(run: Run) -> None:
    code, _, err = run("ping", "nothing")
    assert code == 5
    assert "no worker offers 'nothing'" in err


def test_no_broker_is_code_3(run: Run) -> None:
    code, _, err = run("ping", "--url", "nfp://127.0.0.1:9")
    assert code == 3
    assert "is `dragoman up` running there?" in err


@pytest.mark.process
def test_it_waits_for_a_broker_that_starts(run: Run) -> None:
    with LocalBroker("nfp") as first:
        address = first.endpoints["nfp"]
    broker = LocalBroker("nfp", listen={"nfp": address})
    starting = threading.Timer(0.5, broker.__enter__)
    starting.start()
    try:
        code, _, err = run("ping", "--wait", "30", "--url", address.replace("tcp", "nfp"))
    finally:
        starting.join()
        broker.__exit__()
    assert (code, err) == (0, "")
