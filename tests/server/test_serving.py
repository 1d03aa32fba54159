"""A broker that serves: what it ends with, and what becomes of a start that fails."""

import socket
from pathlib import Path

import pytest

from dragoman import Client
from dragoman.ledger.reader import LedgerReader
from dragoman.ledger.snapshots import SNAPSHOT_FILE, FileSnapshots
from dragoman.model.record import Kind
from dragoman.server.clock import Clock
from dragoman.server.server import LEDGER_FILE
from dragoman.server.serving import make_admission, make_guard
from dragoman.server.settings_sources import load
from dragoman.server.wiring import OPEN
from dragoman.testing.harness import LocalBroker


def test_a_stopped_broker_says_so_last_and_leaves_a_snapshot_of_everything(tmp_path: Path) -> None:
    with LocalBroker(data=tmp_path) as broker, Client(broker.url("nfp")) as client:
        assert client.submit("math", "inc", x=1, timeout=60).wait_until_acknowledged(10)
    reader = LedgerReader(tmp_path / LEDGER_FILE)
    records = list(reader.read(0))
    reader.close()
    head = FileSnapshots(tmp_path / SNAPSHOT_FILE).head()
    assert records[-1].kind == Kind.STOPPED
    assert head is not None
    assert head.seq == records[-1].seq


def test_a_port_that_is_taken_ends_the_start_and_leaves_the_ledger_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(OSError, match="ddress"):
            LocalBroker(data=tmp_path, listen={"nfp": taken}).__enter__()
    with LocalBroker(data=tmp_path) as broker, Client(broker.url("nfp")) as client:
        assert client.call("mmi.service.broker", "show_totals", timeout=10)["succeeded"] == 0


def test_without_security_there_is_no_guard_and_every_peer_is_admitted(tmp_path: Path) -> None:
    settings, clock = load(data=tmp_path), Clock(0.0)
    assert make_guard(settings, clock) is None
    assert make_admission(settings, None, clock, None) is OPEN
