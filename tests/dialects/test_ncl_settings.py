"""Settings: the document's defaults."""

import pytest

from dragoman.dialects.ncl.settings import (
    ComputeSettings,
    OrchestratorSettings,
    read_settings,
)


def test_the_defaults_are_those_of_the_document() -> None:
    compute = ComputeSettings()
    assert compute.heartbeat_interval == 15
    assert compute.heartbeat_miss_factor == 5
    assert compute.info_update_interval == 60
    assert compute.request_timeout == 10
    assert compute.reconnect_interval == 10
    assert (compute.retry_base, compute.retry_max) == (5, 300)
    assert compute.checkpoint_interval == 30


def test_the_orchestrator_waits_for_the_miss_factor_and_then_some_minutes_more() -> None:
    orchestrator = OrchestratorSettings()
    assert orchestrator.disconnect_after == 75
    assert OrchestratorSettings(disconnect_timeout=60).disconnect_after == 60
    assert 120 <= orchestrator.grace <= 600
    assert (orchestrator.ack_wait, orchestrator.max_pending) == (30, 1000)


def test_a_node_is_back_within_two_heartbeats() -> None:
    compute = ComputeSettings()
    assert compute.reconnect_max <= 2 * compute.heartbeat_interval


def test_options_of_a_url_are_settings() -> None:
    read = read_settings({"heartbeat_interval": "0.5", "max_pending": "7"})
    assert read == ComputeSettings(heartbeat_interval=0.5, max_pending=7)
    assert isinstance(read.max_pending, int)
    assert read_settings({"queue_capacity": "0"}).queue_capacity == 0


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("heartbeat", "1", "unknown option"),
        ("heartbeat_interval", "soon", "not a number"),
        ("heartbeat_interval", "0", "greater than 0"),
    ],
)
def test_a_wrong_option_is_named(name: str, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_settings({name: text})
