"""The built-in services answer, and the web application shows the same broker."""

from pathlib import Path

from tests.web.caller import Caller

from dragoman import Client
from dragoman.testing.harness import LocalBroker


def test_every_link_shows_the_same_broker(tmp_path: Path) -> None:
    schedules = {"nightly": {"service": "math", "task": "t", "cron": "0 3 * * *"}}
    with LocalBroker("nfp", "http", data=tmp_path, schedules=schedules) as broker:
        with Client(broker.url("nfp")) as client:
            totals = client.options(timeout=20).call("mmi.service.broker", "show_totals")
        assert totals["open_jobs"] == 0
        caller = Caller(broker.endpoints["http"])
        assert "nightly" in caller.get("/v1/schedules").body.decode()
        # Without security there are no keys to list.
        assert caller.get("/v1/overview").status == 200
