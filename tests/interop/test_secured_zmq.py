"""CURVE end to end: NorFab's peers as they are, our own of every ZeroMQ dialect, and strangers."""

from pathlib import Path

import pytest
from tests.interop.harness import Fleet, run_dragoman, until
from tests.interop.norfab_peers import SERVER_KEY, RealClient, start_worker
from tests.interop.secured import SecuredSite

from dragoman import Client, JobFailed, Worker
from dragoman.sdk.credentials import NONE
from dragoman.sdk.errors import Refused
from dragoman.testing.harness import LocalBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


@pytest.fixture
def site(tmp_path: Path) -> SecuredSite:
    return SecuredSite(tmp_path / "house")


def test_real_norfab_peers_with_zmq_auth_on_work_with_our_key(
    site: SecuredSite, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SERVER_KEY, site.public)
    with site.broker("nfp") as broker:
        start_worker(fleet, broker.endpoints["nfp"], "real-worker")
        client = RealClient(fleet, broker.endpoints["nfp"])

        def answered() -> bool:
            reply = client.ask("run", service="probe", task="add", kwargs={"x": 2, "y": 3})
            return bool(reply["result"]) and reply["result"]["real-worker"]["result"] == 5

        until(answered, "NorFab's worker answers")
        path, _, _ = site.peer("anna")
        with Client(broker.url("nfp"), credentials=path) as ours:
            assert ours.call("probe", "add", x=4, y=5, timeout=20) == 9


def _answer(client: Client) -> object:
    """Ask, and be content with none: not every dialect waits for a worker to come."""
    try:
        return client.call("probe", "add", x=2, y=3, timeout=5)
    except JobFailed:
        return None


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss"])
def test_our_peers_of_every_zeromq_dialect_use_keys(site: SecuredSite, dialect: str) -> None:
    _, made, _ = site.peer("anna")
    with site.broker("nfp", "dcp", "zss", "zss_backend") as broker:
        url = broker.url(dialect, for_workers=True)
        worker = Worker(url, "probe", own_process_beats=False, credentials=made)
        worker.task(_add, name="add")
        with worker, Client(broker.url(dialect), credentials=made) as client:
            until(lambda: _answer(client) == 5, "the worker answers")


def _add(x: int, y: int) -> int:
    return x + y


def test_a_worker_process_finds_its_keys_in_a_file_and_shows_them_to_nobody(
    site: SecuredSite, fleet: Fleet
) -> None:
    path, made, _ = site.peer("anna")
    with site.broker("nfp") as broker:
        task = ("worker", "tests.interop.tasks", "--service", "probe", "--url", broker.url("nfp"))
        worker = fleet.dragoman("--key", str(path), *task)
        call = ("call", "probe", "add", '{"x": 1, "y": 1}', "--url", broker.url("nfp"))
        done = run_dragoman("--key", str(path), *call)
        assert done.stdout.strip() == "2", done.stderr
        assert made.secret not in Path(f"/proc/{worker.pid}/cmdline").read_text()
        assert made.secret not in worker.log


def test_plain_peers_and_peers_with_the_wrong_key_are_told_what_is_wrong(site: SecuredSite) -> None:
    elsewhere = SecuredSite(site.folder / "elsewhere")
    _, wrong, _ = elsewhere.peer("otto")
    with site.broker("nfp") as broker:
        url = broker.url("nfp")
        with Client(url, credentials=NONE) as client, pytest.raises(Refused, match="wants CURVE"):
            client.call("probe", "add", timeout=20)
        with Client(url, credentials=wrong) as client, pytest.raises(Refused, match="not the bro"):
            client.call("probe", "add", timeout=20)
        done = run_dragoman("call", "probe", "add", "--url", url)
        assert done.returncode == 4
        assert "wants CURVE" in done.stderr


def test_a_peer_with_keys_says_nothing_to_a_broker_without(site: SecuredSite) -> None:
    _, made, _ = site.peer("anna")
    with (
        LocalBroker("nfp") as broker,
        Client(broker.url("nfp"), credentials=made) as client,
        pytest.raises(Refused, match="no CURVE handshake"),
    ):
        client.call("probe", "add", timeout=20)
