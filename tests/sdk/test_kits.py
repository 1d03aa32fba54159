"""A kit per dialect."""

import pytest

from dragoman.sdk.kits import Offer, kit_for
from dragoman.sdk.url import Endpoint

OFFER = Offer("w", ("math",), 4, {})


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss"])
def test_every_kit_makes_both_sides_and_their_transports(dialect: str) -> None:
    kit = kit_for(dialect)
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
        kit_for("odd")


def test_one_service_is_asked_for_where_a_dialect_has_one() -> None:
    with pytest.raises(ValueError, match="one service"):
        _ = Offer("w", ("a", "b"), 1, {}).only_service
