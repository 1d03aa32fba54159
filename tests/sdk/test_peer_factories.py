"""A kit per dialect."""

from pathlib import Path

import pytest

from dragoman.dialects.peer_sides import Unsupported
from dragoman.sdk.peer_factories import WorkerSpec, peer_factory_for
from dragoman.sdk.url import Endpoint

OFFER = WorkerSpec("w", ("math",), 4, {})


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss"])
def test_every_kit_makes_both_sides_and_their_transports(dialect: str) -> None:
    kit = peer_factory_for(dialect)
    endpoint = Endpoint(dialect, "tcp://127.0.0.1:1")
    client = kit.client_side("c", lambda: "id")
    assert isinstance(client.hello(), list)
    worker = kit.worker_side(OFFER, lambda: "id")
    assert worker.join()
    assert worker.beat_every > 0
    assert kit.client_transport(endpoint, "c") is not None
    assert hasattr(kit.worker_transport(endpoint, OFFER, True), "keep_beating")
    assert not hasattr(kit.worker_transport(endpoint, OFFER, False), "keep_beating")


def test_a_dialect_without_peers_is_said() -> None:
    with pytest.raises(ValueError, match="odd"):
        peer_factory_for("odd")


def test_one_service_is_asked_for_where_a_dialect_has_one() -> None:
    with pytest.raises(ValueError, match="one service"):
        _ = WorkerSpec("w", ("a", "b"), 1, {}).only_service


def test_ncl_has_workers_whose_url_sets_them_and_no_clients(tmp_path: Path) -> None:
    kit = peer_factory_for("ncl")
    options = (("heartbeat_interval", "0.5"), ("store", str(tmp_path / "store")))
    offer = WorkerSpec("w.with.dots", ("math",), 4, {"zone": "eu"}, options)
    worker = kit.worker_side(offer, lambda: "id")
    (hello,) = worker.join()
    assert hello[0] == b"bacalhau.global.compute.w-with-dots.out.ctrl"
    assert worker.hold == 2.5
    assert (tmp_path / "store").exists()
    endpoint = Endpoint("ncl", "tcp://127.0.0.1:1")
    assert kit.worker_transport(endpoint, offer, True) is not None
    with pytest.raises(ValueError, match="no client role"):
        kit.client_transport(endpoint, "c")
    with pytest.raises(Unsupported):
        kit.client_side("c", lambda: "id").hello()


def test_a_nodes_store_is_synced_if_its_url_says_so(tmp_path: Path) -> None:
    def offer(sync: str) -> WorkerSpec:
        options = (("store", str(tmp_path / "store")), ("fsync", sync))
        return WorkerSpec("w", ("s",), 1, {}, options)

    for sync in ("true", "no"):
        assert peer_factory_for("ncl").worker_side(offer(sync), lambda: "id").join()
    with pytest.raises(ValueError, match="fsync=perhaps"):
        peer_factory_for("ncl").worker_side(offer("perhaps"), lambda: "id")
