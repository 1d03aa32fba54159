"""The examples run, as their pages say."""

import subprocess
import sys
from pathlib import Path

from examples.chain.tour import tour as chain
from examples.memoised.tour import tour as memoised
from examples.ten_lines import tasks

from dragoman import Worker
from dragoman.testing.harness import LocalBroker

ROOT = Path(__file__).parents[2]


def test_a_worker_and_a_client_in_ten_lines() -> None:
    with LocalBroker("nfp", "zss", "zss_backend") as broker:
        worker = Worker(broker.url("nfp"), service="math", own_process_beats=False)
        worker.task(tasks.add)
        with worker:
            done = subprocess.run(
                [sys.executable, "-m", "examples.ten_lines.client", broker.url("zss")],
                capture_output=True,
                text=True,
                cwd=ROOT,
                timeout=50,
                check=True,
            )
    assert done.stdout == "5\n"


def test_work_passes_from_service_to_service_across_dialects() -> None:
    with LocalBroker("nfp", "dcp", "zss", "zss_backend") as broker:
        said = chain(broker.url("dcp"), broker.url("zss", for_workers=True), broker.url("nfp"))
    assert said == "kept 4 words"


def test_a_memoised_function_runs_once() -> None:
    with LocalBroker("nfp", services={"slow": {"memoize": True}}) as broker:
        assert memoised(broker.url("nfp")) == (144, 1)
