"""Checks of the machine: Python, packages, nats-server, Java, clock, open files."""

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from dragoman.cli.doctor.check_results import CheckResult, bad, ok, warning

_PYTHON: Final = (3, 11)
#: The packages a broker imports, by their names on PyPI.
PACKAGES: Final = (
    *("pyzmq", "pynng", "nats-py", "msgspec", "cbor2", "msgpack", "apsw", "pyarrow"),
    *("starlette", "uvicorn", "pydantic", "typer"),
)
_FILES: Final = 4096
#: An earlier clock is wrong: the first second of 2025.
_EARLIEST: Final = 1_735_689_600.0
_WATCH_FOR: Final = 0.2
_JUMP: Final = 0.05


def python() -> Iterator[CheckResult]:
    """Check the interpreter."""
    text = sys.version.split()[0]
    if sys.version_info[:2] >= _PYTHON:
        yield ok("python", text)
    else:
        yield bad("python", f"{text}; {_PYTHON[0]}.{_PYTHON[1]} or newer is needed")


def packages() -> Iterator[CheckResult]:
    """Check that every package a broker imports is installed; print the versions."""
    results: list[str] = []
    for name in PACKAGES:
        try:
            results.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield bad(name, "not installed; run `make setup`, or pip install it")
    yield ok("packages", ", ".join([f"dragoman {version('dragoman')}", *results]))


def nats_server() -> Iterator[CheckResult]:
    """Check the nats-server that a broker starts for NCL, unless it is given another one."""
    beside = os.path.join(os.path.dirname(sys.executable), "nats-server")
    program = beside if os.path.exists(beside) else shutil.which("nats-server")
    if program is None:
        yield bad("nats-server", "not found; give another server (--nats URL) or use --nats off")
        return
    yield ok("nats-server", _first_line([program, "--version"]))


def java() -> Iterator[CheckResult]:
    """Check Spark and Java, which only the pipeline needs."""
    try:
        from dragoman.pipeline.session import JavaMissing, ensure_java
    except ImportError:
        yield warning("spark", "not installed; only the pipeline needs it: pip install .[spark]")
        return
    yield ok("spark", f"pyspark {version('pyspark')}")
    try:
        yield ok("java", _first_line([ensure_java(), "-version"]))
    except JavaMissing as error:
        yield warning("java", f"only Spark needs it: {error}")


def clock() -> Iterator[CheckResult]:
    """Check that the clock is plausible and does not jump."""
    wall, steady = time.time(), time.monotonic()
    time.sleep(_WATCH_FOR)
    jump = (time.time() - wall) - (time.monotonic() - steady)
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(wall))
    if wall < _EARLIEST:
        yield bad("clock", f"{shown} is wrong; set the clock, or records get wrong times")
    elif abs(jump) > _JUMP:
        yield warning("clock", f"{shown}; it jumped by {jump * 1000:+.0f} ms during the check")
    else:
        yield ok("clock", shown)


def open_files() -> Iterator[CheckResult]:
    """Check the limit of open files, which limits the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FILES:
        yield ok("open files", f"at most {soft}")
    else:
        text = f"at most {soft}, one for each connection; run `ulimit -n {min(hard, 65_536)}`"
        yield warning("open files", text)


def _first_line(command: list[str]) -> str:
    """Run a command; return the first line it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return (done.stdout + done.stderr).strip().partition("\n")[0]
