"""A peer factory for each dialect."""

from pathlib import Path

import pytest

from dragoman.dialects.peer_sides import Unsupported
from dragoman.sdk.peer_factories import WorkerSpec, peer_factory_for
from dragoman.sdk.url import Endpoint

SPEC = WorkerSpec("w", ("math",), 4, {})


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss"])
def test_every_kit_makes_both_sides_and_their_transports(dialect: str) -> None:
    factory = peer_factory_for(dialect)
    endpoint = Endpoint(dialect, "tcp://127.0.0.1:1")
    client = factory.client_side("c", lambda: "id")
    assert isinstance(client.hello(), list)
    worker = factory.worker_side(SPEC, lambda: "id")
    assert worker.join()
    assert worker.beat_every > 0
    assert factory.client_transport(endpoint, "c") is not None
    assert hasattr(factory.worker_transport(endpoint, SPEC, True), "keep_beating")
    assert not hasattr(factory.worker_transport(endpoint, SPEC, False), "keep_beating")


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="odd"):
        peer_factory_for("odd")


def test_one_service_is_asked_for_where_a_dialect_has_one() -> None:
    with pytest.raises(ValueError, match="one service"):
        _ = WorkerSpec("w", ("a", "b"), 1, {}).only_service


def test_ncl_has_workers_whose_url_sets_them_and_no_clients(tmp_path: Path) -> None:
    factory = peer_factory_for("ncl")
    options = (("heartbeat_interval", "0.5"), ("store", str(tmp_path / "store")))
    spec = WorkerSpec("w.with.dots", ("math",), 4, {"zone": "eu"}, options)
    worker = factory.worker_side(spec, lambda: "id")
    (hello,) = worker.join()
    assert hello[0] == b"bacalhau.global.compute.w-with-dots.out.ctrl"
    assert worker.hold == 2.5
    assert (tmp_path / "store").exists()
    endpoint = Endpoint("ncl", "tcp://127.0.0.1:1")
    assert factory.worker_transport(endpoint, spec, True) is not None
    with pytest.raises(ValueError, match="no client role"):
        factory.client_transport(endpoint, "c")
    with pytest.raises(Unsupported):
        factory.client_side("c", lambda: "id").hello()


def test_a_nodes_store_is_synced_if_its_url_says_so(tmp_path: Path) -> None:
    def spec(sync: str) -> WorkerSpec:
        options = (("store", str(tmp_path / "store")), ("fsync", sync))
        return WorkerSpec("w", ("s",), 1, {}, options)

    for sync in ("true", "no"):
        assert peer_factory_for("ncl").worker_side(spec(sync), lambda: "id").join()
    with pytest.raises(ValueError, match="fsync=perhaps"):
        peer_factory_for("ncl").worker_side(spec("perhaps"), lambda: "id")
