"""Ledgers that cannot be written: probes, clients and operators are told, and nothing is promised.

Faults are real: a full file system (tmpfs) and a folder that is moved while the broker runs.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.harness import until
from tests.web.caller import Caller, HttpResponse

from dragoman import Client, Worker
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop

MANAGEMENT = "mmi.service.broker"
SETTINGS: dict[str, Any] = {"ledger": {"seal": False}}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)], capture_output=True
    )
    if mounting.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mounting.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all space that is left; return the file that has it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65_536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


def readiness(broker: LocalBroker) -> HttpResponse:
    return Caller(broker.endpoints["http"]).get("/readyz")


def test_a_full_disk_is_told_to_probes_clients_and_operators(small_disk: Path) -> None:
    data = small_disk / "data"
    with LocalBroker("http", "nfp", data=data, **SETTINGS) as broker:
        worker = Worker(broker.url("nfp"), service="math")
        worker.task(lambda x: x + 1, name="add")
        with worker.start(), Client(broker.url("http")) as client:
            assert client.call("math", "add", 1, timeout=20) == 2
            assert readiness(broker).json == {"status": "ready"}
            ballast = fill(small_disk)
            until(lambda: readiness(broker).status == 503, "the full disk is noticed", 20)
            problem = readiness(broker).json
            assert problem["code"] == "unavailable"
            assert "no space is left on the ledger's disk" in problem["detail"]
            assert str(data) not in str(problem), "anyone may ask"
            for dialect in ("http", "nfp"):
                with Client(broker.url(dialect)) as operator:
                    status = operator.call(MANAGEMENT, "show_status", timeout=10)
                assert status["status"] == "blocked"
                assert "free some space" in status["troubles"][0]["detail"]
            # At first clients wait: the trouble may be over in a moment.
            until(lambda: is_blocked(broker), "the trouble lasts", 20)
            refused = is_refused(broker)
            assert "cannot record new jobs: no space is left" in refused["detail"]
            ballast.unlink()
            until(lambda: readiness(broker).status == 200, "there is space again", 20)
            assert client.call("math", "add", 2, timeout=20) == 3


def test_a_data_folder_that_is_moved_stops_the_intake_until_it_is_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with LocalBroker("http", data=data, **SETTINGS) as broker:
        data.rename(tmp_path / "aside")
        until(lambda: readiness(broker).status == 503, "the missing folder is noticed", 20)
        assert "deleted, moved or replaced" in readiness(broker).json["detail"]
        until(lambda: is_blocked(broker), "new jobs are refused", 20)
        assert is_refused(broker)
        assert "dragoman_trouble" in str(Caller(broker.endpoints["http"]).get("/metrics").body)
        (tmp_path / "aside").rename(data)
        until(lambda: readiness(broker).status == 200, "the folder is back", 20)
        assert submission(broker).status == 202


def is_blocked(broker: LocalBroker) -> str:
    assert broker.server.loop is not None
    return broker.server.loop.broker.state.blocked_because


def is_refused(broker: LocalBroker) -> Any:
    """Return the refusal of a new job; None if it is taken."""
    found = submission(broker)
    return found.json if found.status == 503 and found.json["code"] == "unavailable" else None


def submission(broker: LocalBroker) -> HttpResponse:
    job = {"service": "s", "job": os.urandom(8).hex()}
    return Caller(broker.endpoints["http"]).post("/v1/jobs", job)
