"""A fabric of real processes."""

import signal
from pathlib import Path

import pytest

from dragoman.testing import fabric as fabrics
from dragoman.testing.fabric import (
    CheckFailed,
    Fabric,
    client_dialects,
    signals_deferred,
    worker_dialects,
)
from dragoman.testing.harness import LocalBroker

ENDPOINTS = {
    "nfp": "tcp://h:1",
    "zss": "tcp://h:2",
    "zss_backend": "tcp://h:3",
    "nats": "tcp://h:4",
}


def test_workers_and_clients_connect_where_their_dialect_says(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path / "new")
    fabric.endpoints = ENDPOINTS
    assert fabric.url("nfp") == "nfp://h:1"
    assert fabric.url("zss") == "zss://h:2"
    assert fabric.url("zss", is_worker=True) == "zss://h:3"
    assert fabric.url("ncl", is_worker=True) == "ncl://h:4"


def test_ncl_has_workers_and_no_clients() -> None:
    assert set(worker_dialects()) - set(client_dialects()) == {"ncl"}


@pytest.mark.process
def test_a_broker_that_does_not_start_is_reported_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabrics, "LINKS", ("no_such_link",))
    fabric = Fabric(tmp_path)
    with pytest.raises(CheckFailed, match=r"broker\.log"):
        fabric.start_broker()
    assert "no-such-link" in fabric.log("broker").read_text()
    fabric.stop()


@pytest.mark.process
def test_a_missing_worker_is_named(tmp_path: Path) -> None:
    with LocalBroker("nfp") as broker:
        fabric = Fabric(tmp_path)
        fabric.endpoints = broker.endpoints
        with pytest.raises(CheckFailed, match="nobody-here"):
            fabric.wait_for(["nobody-here"], at_most=0.0)


def test_ctrl_c_in_the_middle_of_a_start_takes_effect_after_it() -> None:
    noted = []

    def start() -> None:
        with signals_deferred():
            signal.raise_signal(signal.SIGINT)
            noted.append("process")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert noted
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
