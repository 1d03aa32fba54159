"""The broker for users' tests."""

import pytest

from dragoman import Client
from dragoman.testing.harness import LocalBroker


@pytest.mark.process
def test_only_the_links_asked_for_are_open() -> None:
    with LocalBroker("dcp") as broker:
        assert set(broker.endpoints) == {"dcp"}
        with Client(broker.url("dcp")) as client:
            assert client.call("mmi.service.broker", "show_totals", timeout=10)["jobs"] == 1
    assert not broker.data.exists()


@pytest.mark.process
def test_a_broker_that_cannot_start_says_why() -> None:
    broker = LocalBroker("nfp", limits={"queued_jobs": 1})
    broker.server.settings = broker.server.settings.model_copy(
        update={
            "listen": broker.server.settings.listen.model_copy(
                update={"nfp": "tcp://127.0.0.1:bad"}
            )
        }
    )
    with pytest.raises(ValueError, match="bad' is neither tcp://host:port"):
        broker.__enter__()
