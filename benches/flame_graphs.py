"""`python -m benches.flame_graphs FOLDER`: draw where broker, worker and client spend their time.

The load is that of `bench_sdk`: 100 calls in flight, one worker. Needs py-spy on the path, and the
right to trace processes. One SVG a process, sampled while the load runs.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
from benches.bench_sdk import IN_FLIGHT, fabric_of

CASES = (("nfp", "relaxed"), ("http", "strict"))
SECONDS = 12
_RATE = 200


def main(folder: Path) -> None:
    """Draw the graphs of every case."""
    spy = shutil.which("py-spy")
    if spy is None:
        sys.exit("py-spy is not on the path; install it with: pip install py-spy")
    folder.mkdir(parents=True, exist_ok=True)
    for dialect, service in CASES:
        draw(spy, folder, dialect, service)


def draw(spy: str, folder: Path, dialect: str, service: str) -> None:
    """Draw the three graphs of one case."""
    with fabric_of(dialect, service, 1) as fabric:
        arguments = [fabric.url(dialect), service, str(IN_FLIGHT), str(SECONDS + 3)]
        client = subprocess.Popen(
            [sys.executable, "-m", "benches.sdk_client", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert client.stdout is not None
        client.stdout.readline()
        others = [each.pid for each in psutil.Process().children()]
        worker = next(pid for pid in others if pid not in (fabric.broker_pid, client.pid))
        parties = {"broker": fabric.broker_pid, "worker": worker, "client": client.pid}
        spies = [
            subprocess.Popen(_record(spy, pid, folder / f"{dialect}-{party}.svg"))
            for party, pid in parties.items()
        ]
        client.communicate("go\n")
        for each in spies:
            each.wait()


def _record(spy: str, pid: int, path: Path) -> list[str]:
    options = ["--gil", "--rate", str(_RATE), "--duration", str(SECONDS)]
    return [
        spy,
        "record",
        *options,
        "--format",
        "flamegraph",
        "--output",
        str(path),
        "-p",
        str(pid),
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
