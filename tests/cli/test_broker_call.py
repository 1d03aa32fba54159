"""Questions of commands: an answer soon, or the cause within seconds."""

import time

import pytest
from tests.sdk.test_diagnosis import unused_port

from dragoman.cli import broker_call
from dragoman.cli.broker_call import ask_broker, require_broker
from dragoman.dialects.listeners import ListenerSpec, listener
from dragoman.sdk import diagnosis
from dragoman.sdk.blocking import Job
from dragoman.sdk.errors import Unreachable

#: How long a user may wait for the news that there is no broker.
SOON = 8.0

pytestmark = pytest.mark.process


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "memo", "http"])
def test_without_a_broker_every_dialect_says_so_soon(dialect: str) -> None:
    started, port = time.monotonic(), unused_port()
    with pytest.raises(Unreachable, match=f"nothing listens at 127.0.0.1:{port}"):
        ask_broker(f"{dialect}://127.0.0.1:{port}", "show_totals")
    assert time.monotonic() - started < SOON


def test_a_wrong_dialect_on_a_port_is_named(url: str) -> None:
    address = url.partition("://")[2]
    with pytest.raises(Unreachable, match="speaks ZeroMQ, but memo:// needs NNG"):
        ask_broker(f"memo://{address}", "show_totals")
    with pytest.raises(Unreachable, match="speaks ZeroMQ, but http:// needs HTTP"):
        require_broker(f"http://{address}")
    require_broker(url)


def test_a_port_of_another_dialect_over_the_same_transport_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both dialects use ZeroMQ, and DCP has no acknowledgement: only silence tells."""
    port = int(url.rpartition(":")[2])
    nfp = ListenerSpec("nfp", "nfp", port, "NFP clients and workers")
    monkeypatch.setattr(diagnosis, "LISTENERS", (nfp, listener("dcp")))
    monkeypatch.setattr(broker_call, "_DOUBTFUL", 0.5)
    with pytest.raises(Unreachable, match=f"{port} is the usual port of NFP clients and workers"):
        ask_broker(f"dcp://127.0.0.1:{port}", "show_totals")


def test_an_answer_without_an_acknowledgement_is_waited_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Built-in services acknowledge with the result: silence is not the lack of a broker."""
    monkeypatch.setattr(Job, "wait_until_acknowledged", lambda job, at_most: False)
    assert ask_broker(url, "show_totals")["records"] >= 0


def test_a_question_is_answered(url: str) -> None:
    assert ask_broker(url, "show_totals")["records"] >= 0
