"""Results that expire or are forgotten, through the SDK and HTTP, on a real broker."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dragoman import Client, JobFailed, Worker
from dragoman.dialects.peer_sides import Unsupported
from dragoman.model.fault import FaultCode
from dragoman.testing.harness import LocalBroker

LINKS = ("nfp", "dcp", "zss", "zss_backend", "memo", "http", "mdp")
DIALECTS = ("nfp", "dcp", "zss", "http", "mdp")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    data: Path = tmp_path_factory.mktemp("results")
    with LocalBroker(*LINKS, data=data) as broker, worker_of(broker):
        yield broker


def worker_of(broker: LocalBroker) -> Worker:
    worker = Worker(broker.url("nfp", for_workers=True), "math", own_process_beats=False)
    worker.task(lambda x: 2 * x, name="double")
    return worker


def gone(client: Client, job: str) -> str:
    """Ask another client's job for its result until it is gone; return the reason."""
    while True:
        try:
            client.job(job).result(20)
        except JobFailed as error:
            return error.fault.message if error.fault.code is FaultCode.RESULT_GONE else ""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_result_expires_over(broker: LocalBroker, dialect: str) -> None:
    with Client(broker.url(dialect)) as client:
        job = client.options(timeout=30, result_ttl=0.2).submit("math", "double", 21)
        assert job.result(30) == 42
        with Client(broker.url(dialect)) as another:
            assert "s after the job ended" in gone(another, job.id)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_result_is_forgotten_over(broker: LocalBroker, dialect: str) -> None:
    with Client(broker.url(dialect)) as client:
        job = client.options(timeout=30).submit("math", "double", 21)
        assert job.result(30) == 42
        job.forget()
        assert job.result(30) == 42, "this program has it"
        with Client(broker.url(dialect)) as another:
            assert "was forgotten on request" in gone(another, job.id)


def test_a_span_says_how_long_too(broker: LocalBroker) -> None:
    with Client(broker.url("nfp")) as client:
        ttl = timedelta(minutes=5)
        job = client.options(timeout=30, result_ttl=ttl).submit("math", "double", 1)
        assert job.result(30) == 2
        assert client.job(job.id).result(30) == 2


def test_a_time_that_cannot_be_meant_is_refused(broker: LocalBroker) -> None:
    with (
        Client(broker.url("nfp")) as client,
        pytest.raises(JobFailed, match=r"result_ttl: must be 0.001 to"),
    ):
        client.options(timeout=30, result_ttl=0).call("math", "double", 1)


def test_memo_says_that_it_has_no_room_for_it(broker: LocalBroker) -> None:
    with Client(broker.url("memo")) as client, pytest.raises(Unsupported, match="result_ttl"):
        client.options(timeout=30, result_ttl=5).call("math", "double", 1)


def test_an_open_or_unknown_job_has_nothing_to_forget(broker: LocalBroker) -> None:
    with Client(broker.url("nfp")) as client:
        job = client.options(timeout=30, delay=20).submit("math", "double", 1)
        assert job.wait_until_acknowledged(20)
        with pytest.raises(JobFailed, match="has not ended"):
            job.forget()
        job.cancel()
        with pytest.raises(JobFailed, match="is not known here"):
            client.job("nobody's").forget()


def http(broker: LocalBroker, method: str, path: str, document: object = None) -> tuple[int, str]:
    data = None if document is None else json.dumps(document).encode()
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(broker.url("http") + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(asked) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_http_forgets_a_result_and_its_body(broker: LocalBroker) -> None:
    call = {"service": "math", "task": "double", "args": [4], "result_ttl": 600, "job": "of http"}
    assert http(broker, "POST", "/v1/call", call)[0] == 200
    _, text = http(broker, "GET", "/v1/jobs/of%20http/records")
    [ended] = [r["seq"] for r in json.loads(text)["records"] if r["kind"] == "ended"]
    body = f"/v1/jobs/of%20http/bodies/{ended}"
    assert http(broker, "GET", body)[0] == 200
    status, text = http(broker, "DELETE", "/v1/jobs/of%20http/result")
    assert status == 200, text
    assert (status, json.loads(text)["value"]["status"]) == (200, "forgotten")
    for path in ("/v1/jobs/of%20http/result", body):
        status, text = http(broker, "GET", path)
        assert (status, json.loads(text)["code"]) == (410, "result_gone")
    assert json.loads(http(broker, "GET", "/v1/jobs/of%20http")[1])["state"] == "succeeded"
    assert http(broker, "DELETE", "/v1/jobs/of%20http/result")[0] == 200, "again is fine"


def test_a_forgotten_result_stays_forgotten_after_a_restart(tmp_path: Path) -> None:
    with (
        LocalBroker("nfp", data=tmp_path) as broker,
        worker_of(broker),
        Client(broker.url("nfp")) as client,
    ):
        kept = client.options(timeout=30).submit("math", "double", 1)
        lost = client.options(timeout=30).submit("math", "double", 2)
        short = client.options(timeout=30, result_ttl=0.01).submit("math", "double", 3)
        assert [job.result(30) for job in (kept, lost, short)] == [2, 4, 6]
        lost.forget()
    with LocalBroker("nfp", data=tmp_path) as broker, Client(broker.url("nfp")) as client:
        assert client.job(kept.id).result(30) == 2
        assert "was forgotten" in gone(client, lost.id)
        assert "expired" in gone(client, short.id)
