"""The acts of the demo, with real processes and everything but Spark."""

from pathlib import Path

import pytest

from dragoman.cli.demo import steps
from dragoman.testing.fabric import Fabric, client_dialects, worker_dialects


@pytest.mark.interop
@pytest.mark.timeout(180)
def test_every_pair_and_a_crash_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "JOBS", 100)
    fabric = Fabric(tmp_path)
    told: list[tuple[str, str]] = []
    try:
        fabric.start_broker()
        for dialect in worker_dialects():
            fabric.start_worker(dialect, f"demo-{dialect}", f"demo-{dialect}-1")
        fabric.wait_for([f"demo-{d}" for d in worker_dialects()])
        pairs = steps.bridge(fabric, lambda caller, worker, text: told.append((caller, worker)))
        assert pairs == len(set(told)) == len(client_dialects()) * len(worker_dialects())
        answer: list[str] = []
        steps.crash(fabric, answer.append)
        assert answer[-1].startswith("100 of 100")
        assert steps.totals(fabric)["succeeded"] >= 100 + pairs
    finally:
        fabric.stop()
    assert (fabric.data / "sealed" / "manifest.json").is_file()
