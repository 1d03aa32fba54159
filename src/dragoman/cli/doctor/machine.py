"""The machine: Python, packages, the NATS server, Java, the clock, limits of the process."""

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from dragoman.cli.doctor.findings import CheckResult, bad, ok, warning

_PYTHON: Final = (3, 11)
#: What a broker imports, by the name it is installed under.
PACKAGES: Final = (
    *("pyzmq", "pynng", "nats-py", "msgspec", "cbor2", "msgpack", "apsw", "pyarrow"),
    *("starlette", "uvicorn", "pydantic", "typer"),
)
_FILES: Final = 4096
#: Nobody's clock is before this: the first second of 2025.
_EARLIEST: Final = 1_735_689_600.0
_LOOK: Final = 0.2
_JUMP: Final = 0.05


def python() -> Iterator[CheckResult]:
    """Check the interpreter."""
    words = sys.version.split()[0]
    if sys.version_info[:2] >= _PYTHON:
        yield ok("python", words)
    else:
        yield bad("python", f"{words}; {_PYTHON[0]}.{_PYTHON[1]} or newer is needed")


def packages() -> Iterator[CheckResult]:
    """Check that everything a broker imports is installed, and say the versions."""
    found: list[str] = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield bad(name, "not installed; `make setup` installs what is locked")
    yield ok("packages", ", ".join([f"dragoman {version('dragoman')}", *found]))


def nats_server() -> Iterator[CheckResult]:
    """Check the NATS server that a broker starts for NCL unless it is given another one."""
    beside = os.path.join(os.path.dirname(sys.executable), "nats-server")
    program = beside if os.path.exists(beside) else shutil.which("nats-server")
    if program is None:
        yield bad("nats-server", "not found; give a NATS of yours (--nats URL) or use --nats off")
        return
    yield ok("nats-server", _said([program, "--version"]))


def java() -> Iterator[CheckResult]:
    """Check Spark and Java, which only the pipeline needs."""
    try:
        from dragoman.pipeline.session import JavaMissing, ensure_java
    except ImportError:
        yield warning("spark", "not installed; only the pipeline needs it: pip install .[spark]")
        return
    yield ok("spark", f"pyspark {version('pyspark')}")
    try:
        yield ok("java", _said([ensure_java(), "-version"]))
    except JavaMissing as error:
        yield warning("java", f"{error} Only the pipeline needs it")


def clock() -> Iterator[CheckResult]:
    """Check that the clock is of this age and does not jump."""
    wall, steady = time.time(), time.monotonic()
    time.sleep(_LOOK)
    jump = (time.time() - wall) - (time.monotonic() - steady)
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(wall))
    if wall < _EARLIEST:
        yield bad("clock", f"{shown} cannot be; records would be misdated")
    elif abs(jump) > _JUMP:
        yield warning("clock", f"{shown}; it moved by {jump * 1000:+.0f} ms while it was watched")
    else:
        yield ok("clock", shown)


def open_files() -> Iterator[CheckResult]:
    """Check how many connections the system allows at a time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FILES:
        yield ok("open files", f"{soft} at a time")
    else:
        words = f"{soft} at a time, one for each connection; `ulimit -n {min(hard, 65_536)}`"
        yield warning("open files", words)


def _said(command: list[str]) -> str:
    """Return the first line a program prints about itself."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return (done.stdout + done.stderr).strip().partition("\n")[0]
