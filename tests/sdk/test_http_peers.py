"""Our own peers over HTTP: the SDK and the command line against a real broker."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dragoman import Client, Worker
from dragoman.cli.main import app
from dragoman.dialects.peer_sides import Chunk, InputAsked, Progress
from dragoman.sdk.errors import Cancelled, JobFailed
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop


def offer(url: str, service: str) -> Worker:
    worker = Worker(url, service=service, own_process_beats=False)

    @worker.task
    def echo(value: Any) -> Any:
        return value

    @worker.task
    def fail() -> None:
        raise ValueError("out of luck")

    @worker.task
    def converse(job: Any) -> str:
        job.progress({"half": True})
        job.stream(b"\x00piece")
        return f"hello {job.ask('name?')}"

    @worker.task
    def wait_to_be_stopped(job: Any) -> None:
        while not job.is_cancelled:
            threading.Event().wait(0.02)

    return worker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with (
        LocalBroker("nfp", "http", ledger={"seal": False}) as broker,
        offer(broker.url("http"), "h"),
        offer(broker.url("nfp"), "n"),
    ):
        yield broker


@pytest.fixture
def client(broker: LocalBroker) -> Iterator[Client]:
    with Client(broker.url("http")) as client:
        yield client


@pytest.mark.parametrize("service", ["h", "n"])
def test_values_bytes_and_faults_cross(client: Client, service: str) -> None:
    value = {"a": [1, None, True, "é"], "b": b"\x00\xff" * 1000}
    assert client.call(service, "echo", value, timeout=20) == value
    with pytest.raises(JobFailed, match="out of luck"):
        client.call(service, "fail", timeout=20)


@pytest.mark.parametrize("service", ["h", "n"])
def test_progress_pieces_and_questions_cross(client: Client, service: str) -> None:
    job = client.submit(service, "converse", timeout=30)
    seen: list[object] = []
    for event in job.events():
        seen.append(event)
        if isinstance(event, InputAsked):
            job.give_input(event.request, "bob", event.worker)
    assert job.result(20) == "hello bob"
    assert [e.event for e in seen if isinstance(e, Progress)] == [{"half": True}]
    assert [e.data for e in seen if isinstance(e, Chunk)] == [b"\x00piece"]


@pytest.mark.parametrize("service", ["h", "n"])
def test_a_cancel_is_confirmed(client: Client, service: str) -> None:
    job = client.submit(service, "wait_to_be_stopped", timeout=30)
    next(iter(job.events()))
    job.cancel(20)
    with pytest.raises(Cancelled):
        job.result(20)


def test_results_come_in_order_and_by_worker(client: Client) -> None:
    assert list(client.map("h", "echo", range(50), timeout=30)) == list(range(50))
    (found,) = client.call("h", "echo", "x", target="all", timeout=20).values()
    assert found == "x"


def test_events_are_followed_from_a_position(client: Client) -> None:
    client.call("h", "echo", 1, timeout=20)
    seqs = [event.seq for _, event in zip(range(5), client.subscribe(after=0), strict=False)]
    assert seqs == [1, 2, 3, 4, 5]


def test_what_a_worker_publishes_as_soon_as_it_starts_is_heard(
    broker: LocalBroker, client: Client
) -> None:
    with offer(broker.url("http"), "early") as worker:
        worker.publish("early.bird", {"n": 1})
        event = next(iter(client.subscribe("early.*", after=0)))
    assert event.event == {"n": 1}


def test_peers_go_on_when_the_broker_comes_back(tmp_path: Path) -> None:
    first = LocalBroker("http", data=tmp_path, ledger={"seal": False})
    with first:
        url = first.url("http")
        port = url.rpartition(":")[2]
        worker = offer(url, "h").start()
        client = Client(url)
        assert client.call("h", "echo", 1, timeout=20) == 1
        job = client.submit("h", "converse", timeout=60)
        asked = next(e for e in job.events() if isinstance(e, InputAsked))
    second = LocalBroker("http", data=tmp_path, ledger={"seal": False})
    second.server.settings = second.server.settings.model_copy(
        update={
            "listen": second.server.settings.listen.model_copy(
                update={"http": f"http://127.0.0.1:{port}"}
            )
        }
    )
    with second:
        assert client.call("h", "echo", 2, timeout=40) == 2
        job.give_input(asked.request, "bob", asked.worker)
        assert job.result(40) == "hello bob"
        client.close()
        worker.stop()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["call", "h", "echo", '{"value": 7}'], 7),
        (["services", "--json"], "h"),
        (["workers", "--json"], "http"),
        (["clients", "--json"], "http/"),
        (["jobs", "--json", "--limit", "3"], "echo"),
    ],
)
def test_the_command_line_speaks_http(
    broker: LocalBroker, words: list[str], expected: object
) -> None:
    done = CliRunner().invoke(app, [*words, "--url", broker.url("http")])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said == expected or str(expected) in json.dumps(said)


def test_the_command_line_submits_fetches_and_explains(broker: LocalBroker) -> None:
    url = ["--url", broker.url("http")]
    run = CliRunner().invoke
    job = run(app, ["submit", "h", "echo", '["x"]', *url]).stdout.strip()
    # Log lines of the worker in this process may stand beside the result.
    assert '"x"' in run(app, ["result", job, *url]).stdout.splitlines()
    assert run(app, ["why", job, *url]).stdout.startswith("succeeded")
    assert run(app, ["cancel", job, *url]).stdout.split()[-1] in ("succeeded", "finished")
    assert '"seq": 1' in run(app, ["events", "--limit", "1", *url]).stdout
