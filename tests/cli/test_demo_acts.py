"""The acts of the demo, with real processes and everything but Spark."""

from pathlib import Path

import pytest

from dragoman.cli.demo import acts
from dragoman.cli.demo.fabric import DemoFailed, Fabric


@pytest.mark.interop
@pytest.mark.timeout(180)
def test_every_pair_and_a_crash_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acts, "JOBS", 100)
    fabric = Fabric(tmp_path)
    told: list[tuple[str, str]] = []
    try:
        fabric.start_broker()
        for dialect in fabric.worker_dialects():
            fabric.start_worker(dialect, f"demo-{dialect}", f"demo-{dialect}-1")
        acts.wait_for_workers(fabric, [f"demo-{d}" for d in fabric.worker_dialects()])
        pairs = acts.bridge(fabric, lambda caller, worker, words: told.append((caller, worker)))
        assert (
            pairs == len(set(told)) == len(fabric.client_dialects()) * len(fabric.worker_dialects())
        )
        said: list[str] = []
        acts.crash(fabric, said.append)
        assert said[-1].startswith("100 of 100")
        assert acts.totals(fabric)["succeeded"] >= 100 + pairs
    finally:
        fabric.stop()
    assert (fabric.data / "sealed" / "manifest.json").is_file()


def test_a_missing_worker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acts, "_PATIENCE", 0.0)
    from dragoman.testing.harness import LocalBroker

    with LocalBroker("nfp") as broker:
        fabric = Fabric(tmp_path)
        fabric.endpoints = broker.endpoints
        with pytest.raises(DemoFailed, match="nobody-here"):
            acts.wait_for_workers(fabric, ["nobody-here"])
