"""The watch over secrets while tests run: it learns of each one, and looks for all at the end.

Learned from: the places of the product where secrets come into being or are read, and the files
that hold those of other processes. Looked into: what tests and the processes they start print and
log, the arguments and environments of these processes, and every file in a folder of a test (the
ledgers there have the replies in them). A leak makes the run fail with an exit code of its own,
because running a test again does not mend it.
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
import dragoman.services.masks
import dragoman.transports.nkeys

#: The exit code of a run that left a secret somewhere.
LEAKED: Final = 9
#: Only short things are said again and again, and need be remembered.
_SHORT: Final = 4096
_MARK: Final = (
    "shows_secrets(why): showing a secret is what is tested here; what it says is not searched"
)


class Watch:
    """What is known and what was said, for one run of pytest."""

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

    # --- what is said ---------------------------------------------------------------------------

    def said(self, where: str, text: str | bytes) -> None:
        """Take note of what was said; it is searched at the end, when every secret is known."""
        data = text.encode(errors="replace") if isinstance(text, str) else text
        if self._is_over or self._is_excused or len(data) < SHORTEST or (where, data) in self._seen:
            return
        if len(data) < _SHORT:
            self._seen.add((where, data))
        self._heap.put(f"{where} of {self._test}", data)

    def said_all(self, where: str, texts: Iterable[str | bytes | None]) -> None:
        """Take note of several things that were said."""
        for text in texts:
            self.said(where, text or b"")

    def started(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take note of a process that begins; this is an audit hook."""
        if event == "subprocess.Popen" and not self._is_over:
            _, words, _, environment = arguments
            for word in [words] if isinstance(words, str | bytes | os.PathLike) else words:
                self.said("the arguments of a process", os.fsencode(word))
            # What this process has in its own is passed on to all others: `secret:env:NAME`.
            own = {os.fsencode(value) for value in os.environ.values()}
            for value in {os.fsencode(value) for value in (environment or {}).values()} - own:
                self.said("the environment of a process", value)

    def look_at_processes(self) -> None:
        """Take note of the arguments of processes that were started by those that we started."""
        for process in _descendants("self"):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
                for word in words:
                    self.said("the arguments of a process", word)

    def leaving(self, folder: Path) -> None:
        """Search a folder that is about to be removed."""
        begun = time.perf_counter()
        self.canaries.harvest(folder)
        self._heap.put_segments(folder)
        if not self._is_excused:
            self.leaks += self.canaries.search(folder)
        self.seconds += time.perf_counter() - begun

    # --- pytest ---------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Know which test it is."""
        self._test, self._is_excused = item.nodeid, bool(item.get_closest_marker("shows_secrets"))
        try:
            return (yield)
        finally:
            self._is_excused = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """See what runs before it is ended."""
        self.look_at_processes()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Read what was printed and logged."""
        for name, text in report.sections:
            self.said(name.lower(), text)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Search everything that is left; a leak is the end of the run."""
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
        """Name what leaked."""
        found = summary(self.leaks)
        if found:
            terminalreporter.section("secrets where none may be", red=True)
            for line in found:
                terminalreporter.line(f"LEAKED {line}")
        count = self.canaries.count
        if count:
            terminalreporter.line(f"searched for {count} secrets in {self.seconds:.2f} s")


def _descendants(process: str) -> Iterator[str]:
    """Yield the processes below one, as long as they are there."""
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{process}/task"):
            found = Path(f"/proc/{process}/task/{task}/children").read_text().split()
            for child in found:
                yield child
                yield from _descendants(child)


# --- where secrets come from ----------------------------------------------------------------------


def learn(watch: Watch) -> None:
    """Have every secret that this process makes or reads known."""
    add = watch.canaries.add
    after(zmq, "curve_keypair", lambda pair: add("CURVE key", pair[1]))
    after(dragoman.security.registry, "_new_secret", lambda made: add("token", made[1]))
    after(dragoman.server.credentials, "read_secret", lambda secret: add("CURVE key", secret))
    after(dragoman.services.masks, "resolve", lambda secret: add("inventory secret", secret))
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
    """Have everything that is said to a test heard, too, though the test takes it away."""
    sys.addaudithook(watch.started)
    after(
        pytest.CaptureFixture,
        "readouterr",
        lambda found: watch.said_all("output", found),
    )
    after(
        subprocess.Popen,
        "communicate",
        lambda found: watch.said_all("output of a process", found),
    )
    before(tempfile.TemporaryDirectory, "cleanup", lambda folder: watch.leaving(Path(folder.name)))


def after(owner: Any, name: str, tell: Callable[[Any], object]) -> None:
    """Have `tell` called with what a function returns."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        tell(found)
        return found

    setattr(owner, name, told)


def before(owner: type, name: str, tell: Callable[[Any], object]) -> None:
    """Have `tell` called with an object before a method of it is."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        tell(self)
        return method(self, *args, **kwargs)

    setattr(owner, name, told)


def after_init(kind: type, tell: Callable[[Any], object]) -> None:
    """Have `tell` called with every new object of a class."""
    init = kind.__init__  # type: ignore[misc]

    @functools.wraps(init)
    def told(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        tell(self)

    kind.__init__ = told  # type: ignore[misc]


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch."""
    config.addinivalue_line("markers", _MARK)
    watch = Watch()
    config.pluginmanager.register(watch, "canary watch")
    learn(watch)
    listen(watch)


@pytest.fixture(scope="session", autouse=True)
def folders_of_tests(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> None:
    """Let the watch know where tests have their files."""
    watch_of(pytestconfig).basetemp = tmp_path_factory.getbasetemp()


def watch_of(config: pytest.Config) -> Watch:
    """Return the watch of this run."""
    watch = config.pluginmanager.get_plugin("canary watch")
    assert isinstance(watch, Watch)
    return watch


Canary = Callable[[str], str]


@pytest.fixture
def canary(request: pytest.FixtureRequest) -> Canary:
    """Make a secret of a kind, which nothing may show from then on."""
    watch = watch_of(request.config)

    def make(kind: str) -> str:
        made = f"canary-{os.urandom(16).hex()}"
        watch.canaries.add(kind, made)
        return made

    return make
