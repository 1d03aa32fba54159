"""`why` of the management service: the attempts of a job, from its records."""

import asyncio
from pathlib import Path

from dragoman import Client, Worker
from dragoman.ledger.base import LedgerError
from dragoman.model.record import Record
from dragoman.server.job_history import JobHistory
from dragoman.server.ledger_queries import LedgerQueries
from dragoman.testing.harness import LocalBroker

MANAGEMENT = "mmi.service.broker"


def test_why_has_the_attempts_of_a_job_before_and_after_a_restart(tmp_path: Path) -> None:
    with LocalBroker(data=tmp_path) as broker:
        worker = Worker(broker.url("nfp"), service="math", name="w1", own_process_beats=False)
        worker.task(lambda x: x + 1, name="inc")
        with worker, Client(broker.url("nfp")) as client:
            job = client.submit("math", "inc", x=1)
            assert job.result(10) == 2
            now = client.call(MANAGEMENT, "why", job.id, timeout=10)["attempts"]
    with LocalBroker(data=tmp_path) as broker, Client(broker.url("nfp")) as client:
        later = client.call(MANAGEMENT, "why", job.id, timeout=10)["attempts"]
    assert [(each["attempt"], each["worker"], each["outcome"]) for each in now] == [
        (1, "w1", "succeeded")
    ]
    assert later == now


class BusyQueries(LedgerQueries):
    """Questions of which too many wait."""

    def __init__(self) -> None:
        """Read nothing."""

    async def history(self, job: str) -> list[Record]:
        raise LedgerError("too many searches of the ledger are waiting")


def test_a_ledger_that_does_not_answer_leaves_the_reason() -> None:
    history = JobHistory(lambda job: {"job": job, "reason": "running"}, BusyQueries())
    found = asyncio.run(history.why("j"))
    assert found == {"job": "j", "reason": "running", "attempts": []}
