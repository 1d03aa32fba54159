"""The worker and the client in shell run, as their page says."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.web.caller import Caller, until

from dragoman import Client
from dragoman.testing.harness import LocalBroker

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples" / "http"
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl"),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "http", ledger={"seal": False}) as broker:
        yield broker


def worker(broker: LocalBroker, service: str, *command: str) -> "subprocess.Popen[bytes]":
    base = broker.endpoints["http"]
    started = subprocess.Popen([str(SCRIPTS / "worker.sh"), base, service, *command])
    caller = Caller(base)
    until(lambda: service in names(caller), f"a worker for {service}")
    return started


def names(caller: Caller) -> set[str]:
    return {row["name"] for row in caller.get("/v1/services").json["services"] if row["workers"]}


def call(broker: LocalBroker, service: str, data: bytes) -> "subprocess.CompletedProcess[bytes]":
    command = [str(SCRIPTS / "client.sh"), broker.endpoints["http"], service]
    return subprocess.run(command, input=data, capture_output=True, timeout=40, check=False)


def test_a_client_in_shell_calls_a_worker_in_shell(broker: LocalBroker) -> None:
    shouting = worker(broker, "shout", "tr", "a-z", "A-Z")
    for data in (b"hello", b"", bytes(range(256)) * 400, b"again"):
        done = call(broker, "shout", data)
        assert (done.returncode, done.stdout) == (0, data.upper()), done.stderr
    shouting.terminate()
    assert shouting.wait(10) == 0
    until(lambda: "shout" not in names(Caller(broker.endpoints["http"])), "it has left")


def test_a_command_that_fails_is_a_failed_task(broker: LocalBroker) -> None:
    failing = worker(broker, "failing", "sh", "-c", "echo out of luck >&2; exit 3")
    done = call(broker, "failing", b"x")
    assert done.returncode == 1
    assert b"task_failed" in done.stderr
    assert b"out of luck" in done.stderr
    failing.terminate()
    failing.wait(10)


def test_a_client_of_another_dialect_uses_the_worker_in_shell(broker: LocalBroker) -> None:
    counting = worker(broker, "count", "wc", "-c")
    with Client(broker.url("nfp")) as client:
        assert client.call("count", raw=b"12345", timeout=20).strip() == b"5"
    counting.terminate()
    counting.wait(10)
