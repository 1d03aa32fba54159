"""The pytest plugin that collects secrets while tests run, and searches for leaks at the end.

Sources of secrets: the functions of the product that make or read them, and the files that hold
those of other processes. Searched: output and logs of tests and of the processes they start, the
arguments and environments of these processes, and all files in test folders (ledgers hold replies).
A leak fails the run with its own exit code, because a second attempt would not remove it.
"""

import contextlib
import functools
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import zmq
from tests.canaries import SHORTEST, Canaries, Heap, Leak, summary

import dragoman.sdk.credentials
import dragoman.sdk.issuing
import dragoman.security.registry
import dragoman.server.credentials
import dragoman.services.secret_references
import dragoman.transports.nkeys

#: The exit code of a run that leaked a secret.
LEAKED: Final = 9
#: Longer texts are rarely repeated, so they are not checked for repeats.
_SHORT: Final = 4096
_MARK: Final = "shows_secrets(why): the test is about showing a secret; its output is not searched"


class Watch:
    """The known secrets and the captured output of one run of pytest."""

    def __init__(self) -> None:
        self.canaries = Canaries()
        self.leaks: list[Leak] = []
        self.seconds = 0.0
        self._heap = Heap()
        self._seen: set[tuple[str, bytes]] = set()
        self._test = "before the first test"
        self._is_excused = False
        #: Where pytest has the folders of tests.
        self.basetemp: Path | None = None
        self._is_over = False

    # --- output -------------------------------------------------------------------------------

    def capture(self, where: str, text: str | bytes) -> None:
        """Store output; it is searched at the end, when all secrets are known."""
        data = text.encode(errors="replace") if isinstance(text, str) else text
        if self._is_over or self._is_excused or len(data) < SHORTEST or (where, data) in self._seen:
            return
        if len(data) < _SHORT:
            self._seen.add((where, data))
        self._heap.put(f"{where} of {self._test}", data)

    def capture_all(self, where: str, texts: Iterable[str | bytes | None]) -> None:
        """Store several pieces of output."""
        for text in texts:
            self.capture(where, text or b"")

    def started(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Store arguments and environment of a new process; this is an audit hook."""
        if event == "subprocess.Popen" and not self._is_over:
            _, words, _, environment = arguments
            for word in [words] if isinstance(words, str | bytes | os.PathLike) else words:
                self.capture("the arguments of a process", os.fsencode(word))
            # Variables of this process are inherited on purpose: `secret:env:NAME`.
            own = {os.fsencode(value) for value in os.environ.values()}
            for value in {os.fsencode(value) for value in (environment or {}).values()} - own:
                self.capture("the environment of a process", value)

    def look_at_processes(self) -> None:
        """Store the arguments of all descendants of this process."""
        for process in _descendants("self"):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
                for word in words:
                    self.capture("the arguments of a process", word)

    def leaving(self, folder: Path) -> None:
        """Search a folder before it is removed."""
        begun = time.perf_counter()
        self.canaries.harvest(folder)
        self._heap.put_segments(folder)
        if not self._is_excused:
            self.leaks += self.canaries.search(folder)
        self.seconds += time.perf_counter() - begun

    # --- pytest ---------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Set the current test."""
        self._test, self._is_excused = item.nodeid, bool(item.get_closest_marker("shows_secrets"))
        try:
            return (yield)
        finally:
            self._is_excused = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """Look at the processes before the teardown ends them."""
        self.look_at_processes()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the captured output of a test."""
        for name, text in report.sections:
            self.capture(name.lower(), text)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Search everything; a leak fails the run."""
        begun = time.perf_counter()
        if self.basetemp is not None:
            self.canaries.harvest(self.basetemp)
            self._heap.put_segments(self.basetemp)
            self.leaks += self.canaries.search(self.basetemp)
        self.leaks += self._heap.search(self.canaries)
        self._heap.close()
        self._is_over = True
        self.seconds += time.perf_counter() - begun
        if self.leaks:
            session.exitstatus = LEAKED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the leaks."""
        found = summary(self.leaks)
        if found:
            terminalreporter.section("leaked secrets", red=True)
            for line in found:
                terminalreporter.line(f"LEAKED {line}")
        count = self.canaries.count
        if count:
            terminalreporter.line(f"searched for {count} secrets in {self.seconds:.2f} s")


def _descendants(process: str) -> Iterator[str]:
    """Yield the descendants of a process."""
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{process}/task"):
            found = Path(f"/proc/{process}/task/{task}/children").read_text().split()
            for child in found:
                yield child
                yield from _descendants(child)


# --- where secrets come from ----------------------------------------------------------------------


def learn(watch: Watch) -> None:
    """Register all secrets that this process makes or reads."""
    add = watch.canaries.add
    after(zmq, "curve_keypair", lambda pair: add("CURVE key", pair[1]))
    after(dragoman.security.registry, "_new_secret", lambda made: add("token", made[1]))
    after(dragoman.server.credentials, "read_secret", lambda secret: add("CURVE key", secret))
    sources = dragoman.services.secret_references.SecretSources
    after(sources, "resolve", lambda secret: add("inventory secret", secret))
    after(secrets, "token_urlsafe", lambda word: add("session", word))
    certificate, nkey = dragoman.sdk.issuing.Certificate, dragoman.transports.nkeys.Nkey
    after_init(certificate, lambda made: add("private key", made.secret))
    after_init(nkey, lambda made: add("nkey", made.seed))
    after_init(dragoman.sdk.credentials.Credentials, functools.partial(_learn_credentials, watch))


def _learn_credentials(watch: Watch, made: Any) -> None:
    for kind, secret in (
        ("CURVE key", made.secret),
        ("private key", made.key),
        ("token", made.token),
        ("nkey", made.seed),
    ):
        watch.canaries.add(kind, secret)


def listen(watch: Watch) -> None:
    """Also capture output that a test reads itself, so that pytest does not report it."""
    sys.addaudithook(watch.started)
    after(
        pytest.CaptureFixture,
        "readouterr",
        lambda found: watch.capture_all("output", found),
    )
    after(
        subprocess.Popen,
        "communicate",
        lambda found: watch.capture_all("output of a process", found),
    )
    before(tempfile.TemporaryDirectory, "cleanup", lambda folder: watch.leaving(Path(folder.name)))


def after(owner: Any, name: str, report: Callable[[Any], object]) -> None:
    """Have `report` called with what a function returns."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        report(found)
        return found

    setattr(owner, name, wrapped)


def before(owner: type, name: str, report: Callable[[Any], object]) -> None:
    """Have `report` called with an object before a method of it is."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        report(self)
        return method(self, *args, **kwargs)

    setattr(owner, name, wrapped)


def after_init(kind: type, report: Callable[[Any], object]) -> None:
    """Have `report` called with every new object of a class."""
    init = kind.__init__  # type: ignore[misc]

    @functools.wraps(init)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        report(self)

    kind.__init__ = wrapped  # type: ignore[misc]


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin."""
    config.addinivalue_line("markers", _MARK)
    watch = Watch()
    config.pluginmanager.register(watch, "canary watch")
    learn(watch)
    listen(watch)


@pytest.fixture(scope="session", autouse=True)
def folders_of_tests(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> None:
    """Set the folder of the tests' files."""
    watch_of(pytestconfig).basetemp = tmp_path_factory.getbasetemp()


def watch_of(config: pytest.Config) -> Watch:
    """Return the watch of this run."""
    watch = config.pluginmanager.get_plugin("canary watch")
    assert isinstance(watch, Watch)
    return watch


Canary = Callable[[str], str]


@pytest.fixture
def canary(request: pytest.FixtureRequest) -> Canary:
    """Make a secret of a kind; if it is found anywhere, the run fails."""
    watch = watch_of(request.config)

    def make(kind: str) -> str:
        made = f"canary-{os.urandom(16).hex()}"
        watch.canaries.add(kind, made)
        return made

    return make
