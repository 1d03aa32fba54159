"""The demo's processes."""

from pathlib import Path

import pytest

from dragoman.cli.demo import fabric as fabrics
from dragoman.cli.demo.fabric import DemoFailed, Fabric

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


def test_ncl_has_workers_and_no_clients(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path)
    assert set(fabric.worker_dialects()) - set(fabric.client_dialects()) == {"ncl"}


def test_a_broker_that_does_not_start_is_said_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabrics, "LINKS", ("no_such_link",))
    fabric = Fabric(tmp_path)
    with pytest.raises(DemoFailed, match=r"broker\.log"):
        fabric.start_broker()
    assert "no-such-link" in fabric.log("broker").read_text()
    fabric.stop()
