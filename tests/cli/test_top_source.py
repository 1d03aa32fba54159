"""What the terminal view asks, and what it says if it gets no answer."""

import pytest
from tests.web.caller import Caller

from dragoman.cli.top.source import TopSource
from dragoman.sdk.credentials import NONE
from dragoman.sdk.errors import Refused, Unreachable
from dragoman.testing.harness import LocalBroker


def test_a_broker_that_does_not_answer_is_named() -> None:
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:9 does not answer"):
        TopSource("http://127.0.0.1:9", NONE).overview()


@pytest.mark.interop
def test_it_reads_without_leaving_records() -> None:
    with LocalBroker("http", ledger={"seal": False}) as broker:
        source = TopSource(broker.endpoints["http"] + "/", NONE)
        before = source.overview()["totals"]["records"]
        for view in ("services", "workers", "jobs"):
            assert source.rows(view) == []
        job = Caller(broker.endpoints["http"]).post("/v1/jobs", {"service": "x"}).json["job"]
        assert source.why(job)["reason"] == "no_service"
        assert source.records(job)[0]["kind"] == "submitted"
        assert source.cancel(job)["cancelled"]
        with pytest.raises(Refused, match="no record of the job never"):
            source.records("never")
        assert before == 5
