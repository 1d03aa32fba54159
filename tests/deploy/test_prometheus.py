"""A real Prometheus scrapes a real broker; promtool reads the rules; panels name real metrics."""

import json
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts.grafana_dashboard import dashboard
from tests.web.caller import Caller, until

from dragoman import Worker
from dragoman.testing.harness import LocalBroker

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
PROMETHEUS = shutil.which("prometheus") or ""

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not PROMETHEUS, reason="as root: apt-get install -y prometheus"),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "http", ledger={"seal": False}) as broker:
        worker = Worker(broker.url("nfp"), service="math")

        @worker.task
        def add(x: int, y: int) -> int:
            return x + y

        with worker:
            caller = Caller(broker.endpoints["http"])
            for task in ("add", "add", "nothing"):
                caller.post("/v1/call", {"service": "math", "task": task, "args": [1, 2]})
            yield broker


@pytest.fixture(scope="module")
def prometheus(broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    target = broker.endpoints["http"].removeprefix("http://")
    config = config.replace("127.0.0.1:8420", target).replace("15s", "1s")
    (folder / "prometheus.yml").write_text(config)
    shutil.copy(DEPLOY / "prometheus" / "alerts.yml", folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [
            PROMETHEUS,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
        ],
        stderr=subprocess.DEVNULL,
    )
    yield f"http://{address}"
    process.terminate()
    process.wait(20)


def query(prometheus: str, text: str) -> list[Any]:
    search = urllib.parse.urlencode({"query": text})
    try:
        with urllib.request.urlopen(f"{prometheus}/api/v1/query?{search}", timeout=10) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return found
    except OSError:
        return []


def test_a_real_prometheus_scrapes_a_real_broker(prometheus: str) -> None:
    text = 'dragoman_job_total_seconds_count{service="math",dialect="http"}'
    until(lambda: query(prometheus, text), "the first scrape")
    assert query(prometheus, text)[0]["value"][1] == "3"
    assert query(prometheus, 'up{job="dragoman"}')[0]["value"][1] == "1"
    assert query(prometheus, 'dragoman_faults_total{code="task_failed"}')[0]["value"][1] == "1"
    assert query(prometheus, 'dragoman_link_connections{link="nfp"}')[0]["value"][1] != "0"


@pytest.mark.parametrize(
    "command",
    ["check config prometheus.yml", "check rules alerts.yml", "test rules alerts_test.yml"],
)
def test_promtool_accepts_the_rules(command: str) -> None:
    done = subprocess.run(
        ["promtool", *command.split()], cwd=DEPLOY / "prometheus", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_grafanas_panels_and_the_alerts_use_metrics_that_exist(broker: LocalBroker) -> None:
    scraped = Caller(broker.endpoints["http"]).get("/metrics").body.decode()
    known = set(re.findall(r"^# TYPE (\S+)", scraped, re.MULTILINE))
    texts = [t["expr"] for panel in dashboard()["panels"] for t in panel["targets"]]
    texts.append((DEPLOY / "prometheus" / "alerts.yml").read_text())
    used = {name for text in texts for name in re.findall(r"\b(?:dragoman|process)_\w+", text)}
    used = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    # Sealing is off here, so nothing is exported.
    assert used - known - {"dragoman_ledger_unexported_records"} == set()


def test_the_written_dashboard_is_the_one_of_the_script() -> None:
    assert json.loads((DEPLOY / "grafana" / "dragoman.json").read_text()) == dashboard()


def test_openmetrics_are_readable_and_name_a_job_of_each_bucket(broker: LocalBroker) -> None:
    accept = "application/openmetrics-text; version=1.0.0"
    found = Caller(broker.endpoints["http"]).get("/metrics", Accept=accept)
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=Caller(broker.endpoints["http"]).get("/metrics").body,
        capture_output=True,
    )
    assert done.returncode in (0, 3), done.stderr  # 3: hints about names
    assert found.headers["content-type"].startswith("application/openmetrics-text")
    assert re.search(rb'job_total_seconds_bucket\{.*\} \S+ # \{job="\w+"\}', found.body)
    assert found.body.endswith(b"# EOF\n")
