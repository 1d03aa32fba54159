"""The steps of the demo: every pair of dialects, a crash during work, the pipeline."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dragoman.sdk.blocking import Client
from dragoman.sdk.errors import DragomanError
from dragoman.testing.fabric import CheckFailed, Fabric, client_dialects, worker_dialects

#: A value of every type that all dialects can carry.
VALUE: Final[dict[str, Any]] = {
    "text": "naïve",
    "list": [1, -2.5, None, True, []],
    "bytes": b"\x00\xff",
}
JOBS: Final = 300
_PATIENCE: Final = 60.0
Tell = Callable[[str, str, str], None]


def bridge(fabric: Fabric, tell: Tell) -> int:
    """Call a worker of every dialect with a client of every dialect; return the pairs."""
    pairs = 0
    for caller in client_dialects():
        with Client(fabric.url(caller)) as client:
            for worker in worker_dialects():
                started = time.monotonic()
                _check_pair(client, caller, worker)
                took = (time.monotonic() - started) * 1000
                tell(caller, worker, f"{took:.0f} ms")
                pairs += 1
    return pairs


def _check_pair(client: Client, caller: str, worker: str) -> None:
    service = f"demo-{worker}"
    answer = client.call(service, "echo", VALUE, timeout=20)
    if answer != VALUE:
        raise CheckFailed(f"{caller} to {worker}: sent {VALUE!r}, got {answer!r}")
    if caller == "memo":
        # memo01 has no message for a failure: a failed request is never answered.
        return
    try:
        client.call(service, "refuse", timeout=20)
    except DragomanError as error:
        if "refused" not in str(error):
            raise CheckFailed(f"{caller} to {worker}: unexpected error: {error}") from None
    else:
        raise CheckFailed(f"{caller} to {worker}: a failed task was reported as a success")


def crash(fabric: Fabric, say: Callable[[str], None]) -> None:
    """Kill a worker and the broker during work, and count the results."""
    for name in ("square-1", "square-2"):
        fabric.start_worker("nfp", "squares", name)
    fabric.wait_for(["squares"])
    with Client(fabric.url("nfp")) as client:
        jobs = [client.submit("squares", "square", n=n, timeout=120) for n in range(JOBS)]
        for job in jobs:
            if not job.wait_until_acknowledged(_PATIENCE):
                raise CheckFailed(f"job {job.id} was never acknowledged")
        say(f"{JOBS} jobs acknowledged; killing a worker, then the broker")
        fabric.kill_worker("square-1")
        fabric.kill_broker()
        fabric.start_broker()
        say("broker restarted on its ledger; waiting for the results")
        answers = [job.result(120) for job in jobs]
    if answers != [n * n for n in range(JOBS)]:
        raise CheckFailed("some results are wrong or missing")
    say(f"{JOBS} of {JOBS} results arrived, all correct")


def totals(fabric: Fabric) -> dict[str, Any]:
    """Return the broker's totals."""
    with Client(fabric.url("nfp")) as client:
        found: dict[str, Any] = client.call("mmi.service.broker", "show_totals", timeout=10)
        return found


def pipeline(fabric: Fabric) -> Path:
    """Run the Spark pipeline over the demo's ledger; return the path of the report."""
    source, tables = str(fabric.data / "sealed"), str(fabric.folder / "tables")
    report = fabric.folder / "report.html"
    command = [sys.executable, "-c", "from dragoman.cli.main import main; main()", "pipeline"]
    text = ["run", "--source", source, "--tables", tables, "--audit", "--report", str(report)]
    done = subprocess.run([*command, *text], check=False)
    if done.returncode != 0:
        raise CheckFailed(f"`dragoman pipeline run` exited with {done.returncode}")
    return report
