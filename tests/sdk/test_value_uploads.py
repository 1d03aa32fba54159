"""A client stores the large arguments of a job, then submits it."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import AsyncClient, Client, LargeValues, ValueLost
from dragoman.dialects.peer_sides import Submission
from dragoman.model.content import Call
from dragoman.model.names import JobId
from dragoman.sdk.files import FILES, AsyncFiles
from dragoman.sdk.value_uploads import ValueUploads
from dragoman.testing.harness import LocalBroker

VALUES = LargeValues("nf://drop/values", above=1000)


@pytest.fixture(scope="module")
def drop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drop")


@pytest.fixture(scope="module")
def broker(drop: Path) -> Iterator[LocalBroker]:
    with LocalBroker("nfp", files={"roots": {"drop": str(drop)}, "writable": ["drop"]}) as running:
        yield running


def test_pieces_of_files_are_not_stored_as_values() -> None:
    async def story() -> None:
        client = AsyncClient("nfp://127.0.0.1:9")
        call = Call("t", (b"x" * 2000,))
        uploads = ValueUploads(VALUES, AsyncFiles(client), lambda job: None, lambda job: None)
        assert uploads.concern(Submission(JobId("j"), "svc", call))
        assert not uploads.concern(Submission(JobId("j"), FILES, call))
        assert not uploads.concern(Submission(JobId("j"), "svc", Call("t", (b"x",))))
        none = ValueUploads(None, AsyncFiles(client), lambda job: None, lambda job: None)
        assert not none.concern(Submission(JobId("j"), "svc", call))

    asyncio.run(story())


def test_jobs_with_the_same_value_share_a_file_and_have_their_own_ids(
    broker: LocalBroker, drop: Path
) -> None:
    with Client(broker.url("nfp"), large_values=VALUES) as client:
        args = [(b"shared" * 500,)] * 5
        jobs = client.options(timeout=1).submit_many("nobody", "t", args)
        assert len({job.id for job in jobs}) == 5
        for job in jobs:
            with pytest.raises(Exception, match="nobody"):
                job.result(30)
    assert len(os.listdir(drop / "values")) == 1


def test_a_job_whose_value_cannot_be_stored_is_not_submitted(broker: LocalBroker) -> None:
    nowhere = LargeValues("nf://nowhere/values", above=10)
    with Client(broker.url("nfp"), large_values=nowhere) as client:
        job = client.submit("svc", "length", b"x" * 100)
        with pytest.raises(ValueLost, match=rf"job {job.id} was not submitted: .*shares no files"):
            job.result(60)


def test_a_client_that_is_closed_while_it_stores_says_so(broker: LocalBroker) -> None:
    async def story() -> None:
        client = AsyncClient(broker.url("nfp"), large_values=VALUES)
        await client.open()
        job = client.options().submit("svc", "length", b"x" * 3_000_000)
        await client.close()
        with pytest.raises(ConnectionError, match="the client was closed"):
            await job.result(10)

    asyncio.run(story())
