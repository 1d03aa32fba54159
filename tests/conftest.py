"""What every test shares: Hypothesis profiles, Ctrl-C, the watch over secrets, parts, marks.

A busy machine can be slow with any example, so examples are not timed; each test has its
time-out. CI repeats the same examples every time; other runs draw new ones.
"""

import os
import signal
import sys
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Hooks and a fixture: at the end, everything left by tests is searched for the secrets they made.
from tests.canary_watch import canary as canary
from tests.canary_watch import folders_of_tests as folders_of_tests
from tests.canary_watch import pytest_configure as pytest_configure

from dragoman.server import ledger_maintenance

SLOW = [HealthCheck.too_slow]
settings.register_profile("local", deadline=None, suppress_health_check=SLOW)
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=SLOW)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A shell starts background commands with SIGINT ignored, and their children inherit that. Tests of
# Ctrl-C need processes as a terminal starts them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# --- parts ----------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--part 1/2`: run a share of the tests, so that two processes run all of them."""
    parser.addoption("--part", default="1/1", help="run a share of the tests, such as 1/2")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the files of the part that was asked for."""
    number, count = (int(text) for text in config.getoption("--part").split("/"))
    if count == 1:
        return
    mine = [item for item in items if zlib.crc32(item.path.name.encode()) % count == number - 1]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(mine)])
    items[:] = mine


# --- processes ------------------------------------------------------------------------------------

#: Marks of tests that may start processes. Unmarked tests are unit tests: fast and alone.
_MAY_START = frozenset({"process", "sim", "interop", "spark", "scale", "crash"})
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn"})
#: `platform.uname` runs the first once. The second searches a temporary folder before it goes.
_NOT_THE_TESTS = (("uname",), ("grep",))
_started: list[str] = []


def _note_start(event: str, arguments: tuple[object, ...]) -> None:
    if event in _STARTS and arguments[:1] not in _NOT_THE_TESTS:
        _started.append(str(arguments[0] if arguments else event))


sys.addaudithook(_note_start)


@pytest.fixture(scope="session", autouse=True)
def segments_without_another_process() -> Iterator[None]:
    """Let brokers in the process of the tests write their segments there, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_maintenance, "in_another_process", lambda ledger_file: None)
        yield


@pytest.fixture(autouse=True)
def no_process_from_a_unit_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail an unmarked test that starts a process."""
    if any(request.node.get_closest_marker(mark) for mark in _MAY_START):
        yield
        return
    before = len(_started)
    yield
    if _started[before:]:
        pytest.fail(f"it starts {_started[before]}; mark it `process`")
