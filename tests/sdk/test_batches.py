"""Many jobs at once cost few commits, in every dialect whose client may have many jobs open.

The client of a dialect over ZeroMQ writes all of them before it reads. The broker takes what has
arrived in one turn, and one turn is one commit. How many turns there are depends on how the two
processes run, so the test allows some. memo01 sends a request for each of its contexts at a time.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from dragoman import Client, Flow, Worker
from dragoman.ledger.base import Entry
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.testing.harness import LocalBroker

LINKS = ("nfp", "dcp", "zss", "zss_backend", "http", "mdp")
JOBS = 500
#: 50 jobs a commit or more. On an idle machine there are one or two, over HTTP three.
MOST_COMMITS = 10


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(*LINKS) as broker:
        yield broker


class Commits:
    """Counts the new jobs in each commit of the ledger."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._append = SqliteLedger.append

    async def append(self, ledger: SqliteLedger, entries: Sequence[Entry]) -> int:
        new = sum(e.record.kind == "submitted" and e.record.service == "many" for e in entries)
        if new:
            self.sizes.append(new)
        return await self._append(ledger, entries)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Commits:
    found = Commits()

    async def append(self: SqliteLedger, entries: Sequence[Entry]) -> Any:
        return await found.append(self, entries)

    monkeypatch.setattr(SqliteLedger, "append", append)
    return found


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "http", "mdp"])
def test_many_jobs_share_few_commits_over(
    broker: LocalBroker, commits: Commits, dialect: str
) -> None:
    worker = Worker(broker.url("nfp", for_workers=True), "many", own_process_beats=False)
    worker.task(lambda x: x, name="same")
    with worker, Client(broker.url("nfp")) as operator, Client(broker.url(dialect)) as client:
        Flow(operator).pause("many")
        jobs = client.options(timeout=50).submit_many("many", "same", range(JOBS))
        Flow(operator).resume("many")
        assert client.gather(jobs, 50) == list(range(JOBS))
    assert sum(commits.sizes) == JOBS
    assert len(commits.sizes) <= MOST_COMMITS, commits.sizes
