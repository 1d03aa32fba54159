"""The command line as its users have it: processes, what they print, and how they end."""

import json
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.interop.harness import Broker, Fleet, free_port, run_dragoman
from tests.interop.raw_nfp import until_workers

from dragoman.dialects.listeners import LISTENERS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(150)]

COMMANDS = "up worker call submit result cancel why services workers clients jobs events".split()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with a worker of `probe`."""
    fleet = Fleet(tmp_path_factory.mktemp("cli"))
    try:
        broker = fleet.broker()
        fleet.dragoman("worker", "tests.interop.tasks", "--service", "probe", "--name", "w1",
                       "--url", broker.url())  # fmt: skip
        until_workers(broker.endpoints["nfp"], "w1")
        yield broker
    finally:
        fleet.end()


def run(scene: Broker, *arguments: str, expect: int = 0) -> str:
    """Run a command against the broker; return what it printed."""
    done = run_dragoman(*arguments, "--url", scene.url())
    assert done.returncode == expect, (arguments, done.returncode, done.stdout, done.stderr)
    if expect:
        assert done.stderr.startswith("dragoman: ") or "Usage" in done.stderr, done.stderr
    return done.stdout


def rows(scene: Broker, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(scene, *arguments, "--json"))
    return found


def test_a_call_prints_the_answer_and_progress_apart_from_it(scene: Broker) -> None:
    assert json.loads(run(scene, "call", "probe", "add", '{"x": 2, "y": 3}')) == 5
    assert json.loads(run(scene, "call", "probe", "add", "[2, 3]")) == 5
    assert json.loads(run(scene, "call", "probe", "add", "7")) == 7
    assert json.loads(run(scene, "call", "probe", "add", "7", "--target", "all")) == {"w1": 7}
    assert json.loads(run(scene, "call", "probe", "add", "7", "--target", "w1")) == 7
    done = run_dragoman("call", "probe", "steps", '{"n": 2}', "--url", scene.url())
    assert json.loads(done.stdout) == 2
    assert done.stderr.splitlines() == ['w1: {"step": 0}', 'w1: {"step": 1}']


def test_a_job_is_submitted_found_and_explained(scene: Broker) -> None:
    job = run(scene, "submit", "probe", "add", '{"x": 1, "y": 1}').strip()
    assert re.fullmatch(r"[0-9a-f]{32}", job)
    assert json.loads(run(scene, "result", job)) == 2
    assert run(scene, "why", job).strip()
    assert json.loads(run(scene, "why", job, "--json"))["job"] == job
    assert job in {row["job"] for row in rows(scene, "jobs")}
    assert job in {row["job"] for row in rows(scene, "jobs", "--state", "succeeded")}


def test_a_job_that_waits_is_explained_and_cancelled(scene: Broker) -> None:
    job = run(scene, "submit", "nobody", "add", "1").strip()
    assert "nobody" in run(scene, "why", job)
    assert "cancelled" in run(scene, "cancel", job).lower()
    run(scene, "result", job, expect=1)


def test_listings_are_tables_for_people_and_json_for_programs(scene: Broker) -> None:
    (probe,) = [r for r in rows(scene, "services") if r["name"] == "probe"]
    assert probe["workers"] == 1
    (worker,) = [r for r in rows(scene, "workers") if r["name"] == "w1"]
    assert worker["status"] == "alive"
    assert rows(scene, "clients")
    for command in ("services", "workers", "clients", "jobs"):
        assert len(run(scene, command).splitlines()) > 1


def test_events_are_one_json_object_a_line(scene: Broker) -> None:
    printed = run(scene, "events", "--from", "0").splitlines()
    found = [json.loads(line) for line in printed]
    assert [f["seq"] for f in found] == list(range(1, len(found) + 1))
    some = [json.loads(line) for line in run(scene, "events", "broker.joined").splitlines()]
    assert {f["topic"] for f in some} == {"broker.joined"}
    limited = run(scene, "events", "--follow", "--from", "0", "--limit", "3").splitlines()
    assert [json.loads(line)["seq"] for line in limited] == [1, 2, 3]


def test_exit_codes_say_what_happened(scene: Broker) -> None:
    run(scene, "call", "probe", "broken", expect=1)
    run(scene, "result", "0" * 32, expect=1)
    run(scene, "call", "probe", "add", "not json", expect=2)
    run(scene, "call", "probe", "slow", '{"seconds": 30}', "--timeout", "1", expect=5)
    unfinished = run(scene, "submit", "probe", "patient", '{"seconds": 600}').strip()
    run(scene, "result", unfinished, "--timeout", "0.5", expect=5)
    run(scene, "cancel", unfinished)
    assert run_dragoman("call").returncode == 2
    assert run_dragoman("no-such-command").returncode == 2
    assert run_dragoman("call", "probe", "add", "--url", "gopher://x").returncode == 2
    nowhere = f"nfp://127.0.0.1:{free_port()}"
    for command in (["call", "probe", "add"], ["submit", "probe", "add"]):
        done = run_dragoman(*command, "--connect", "1", "--url", nowhere)
        assert done.returncode == 3, done.stderr


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help(command: str) -> None:
    done = run_dragoman(*([command] if command else []), "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_ctrl_c_ends_everything_cleanly(fleet: Fleet) -> None:
    broker = fleet.broker()
    worker = fleet.dragoman("worker", "tests.interop.tasks", "--service", "probe", "--name", "w",
                            "--url", broker.url())  # fmt: skip
    until_workers(broker.endpoints["nfp"], "w")
    call = fleet.dragoman("call", "nobody", "add", "--url", broker.url())
    events = fleet.dragoman("events", "--follow", "--from", "0", "--url", broker.url())
    events.until_it_says("broker.submitted")
    for process, code in ((call, 130), (events, 130), (worker, 0), (broker, 0)):
        process.signal(signal.SIGINT)
        assert process.wait(20) == code, process
        assert "Traceback" not in process.log


def test_a_wrong_module_or_setting_is_one_line(fleet: Fleet) -> None:
    done = run_dragoman("worker", "no.such.module", "--service", "s")
    assert done.returncode == 2
    assert "no.such.module" in done.stderr
    config = fleet.folder / "wrong.toml"
    config.write_text("[nfp]\nbeat_evry = 3\n")
    done = run_dragoman("up", "--config", str(config), "--data", str(fleet.folder / "d"))
    assert done.returncode == 2
    assert "beat_evry" in done.stderr
    busy = fleet.broker()
    taken = busy.endpoints["nfp"]
    others = [each.name.replace("_", "-") for each in LISTENERS if each.name != "nfp"]
    offs = [word for name in others for word in (f"--{name}", "off")]
    done = run_dragoman("up", "--data", str(fleet.folder / "e"), "--nfp", taken, *offs)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert taken.rpartition(":")[2] in done.stderr
