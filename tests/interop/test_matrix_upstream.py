"""The matrix with peers that are not ours: NorFab's client and worker, ZSS's on Node, pynng's.

Each of these clients calls our workers and the three workers that are not ours; each of those
workers is called by our clients, too. The table of results is written to
`build/matrix-upstream.md`; `docs/matrix.md` has to show the same.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from tests.interop.harness import ROOT, Process, until
from tests.interop.matrix_stage import CREW, SETTINGS, VALUES, Stage
from tests.interop.matrix_table import (
    HALF,
    NO_CANCEL,
    SILENT,
    UPSTREAM,
    UPSTREAM_PAIRS,
    WORDLESS,
    WORKERS,
    cancels,
    expected,
    failing,
    table,
)
from tests.interop.upstream import (
    SILENCE,
    START,
    TIMED_OUT,
    Caller,
    NodeCaller,
    NorfabCaller,
    PynngCaller,
    Told,
)

from dragoman import Client, DragomanError
from dragoman.sdk.errors import Cancelled, Expired, Unreachable

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

#: NorFab's workers say that they are there every 2.5 s, which is no setting of the broker's.
PATIENT: Final = SETTINGS.replace("missed_allowed = 6", "missed_allowed = 8", 1)
#: How long a job takes that nobody stops; it goes on at its worker when the test is over.
LONG: Final = 3.0
#: A ZSS service says 404 in the suite's own words, which name nothing.
UNKNOWN: Final = {"zss-npm": "could not be found"}
RESULTS: dict[tuple[str, str], dict[str, str]] = {}


class OurCaller:
    """A client of ours, with the verbs of the others."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def call(self, service: str, task: str, *args: Any, timeout: float = 30.0) -> Told:
        try:
            return Told(self.client.call(service, task, *args, timeout=timeout))
        except (Expired, Unreachable):
            return Told(fault=TIMED_OUT)
        except DragomanError as error:
            return Told(fault=str(error))

    def burst(self, service: str, task: str, values: Sequence[Any]) -> list[Told]:
        calls = [{"value": value} for value in values]
        # A ZSS payload is one value: named arguments are a map, which a plain echo returns whole.
        found = self.client.map(service, task, calls, window=len(values), timeout=60)
        return [Told(value) for value in found]

    def close(self) -> None:
        """The stage closes the client."""


class Crowd(Stage):
    """The stage of the matrix, and on it the peers that are not ours."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, PATIENT)
        self.workers |= {kind: self.start(kind) for kind in UPSTREAM}
        self.node = NodeCaller(self.broker)
        self.callers: dict[str, Caller] = {d: OurCaller(c) for d, c in self.clients.items()}
        self.callers |= {
            "norfab": NorfabCaller(self.fleet, self.broker),
            "zss-npm": self.node,
            "pynng": PynngCaller(self.broker),
        }
        self.wait_for(*(f"mx-{kind}" for kind in UPSTREAM))

    def start(self, kind: str) -> Process:
        """Start a worker of any kind."""
        if kind in UPSTREAM:
            return START[kind](self.fleet, self.broker, f"mx-{kind}")
        return self.worker(kind)

    def end(self) -> None:
        for caller in self.callers.values():
            caller.close()
        super().end()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    crowd = Crowd(tmp_path_factory.mktemp("upstream"))
    yield crowd
    crowd.end()
    target = ROOT / "build" / "matrix-upstream.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text(table(RESULTS, UPSTREAM_PAIRS))


def note(caller: str, worker: str, case: str, words: str = "ok") -> None:
    RESULTS.setdefault((caller, worker), {})[case] = words


def callers_of(worker: str) -> list[str]:
    """Return the clients that the table has for a worker."""
    return [c for c, w in UPSTREAM_PAIRS if w == worker]


def together(
    callers: list[str], ask: Callable[[str], Told]
) -> tuple[list[threading.Thread], dict[str, Told]]:
    """Let several clients ask at once, each in a thread of its own."""
    answers: dict[str, Told] = {}

    def one(caller: str) -> None:
        answers[caller] = ask(caller)

    threads = [threading.Thread(target=one, args=(caller,)) for caller in callers]
    for thread in threads:
        thread.start()
    return threads, answers


@pytest.mark.parametrize(("caller", "worker"), UPSTREAM_PAIRS)
def test_values_of_every_type_and_a_mebibyte_cross(crowd: Crowd, caller: str, worker: str) -> None:
    client = crowd.callers[caller]
    found = client.call(f"mx-{worker}", "echo", VALUES)
    assert found == Told(VALUES)
    assert [type(value) for value in found.value] == [type(value) for value in VALUES]
    note(caller, worker, "values")
    size = 2**19 if worker in HALF else 2**20
    large = [{"b": bytes(range(256)) * (size // 256)}]
    assert client.call(f"mx-{worker}", "echo", large) == Told(large)
    note(caller, worker, "1 MiB", "ok" if size == 2**20 else "512 KiB")


@pytest.mark.parametrize(("caller", "worker"), failing(UPSTREAM_PAIRS))
def test_failures_and_unknown_tasks_are_told_by_name(
    crowd: Crowd, caller: str, worker: str
) -> None:
    for task, case, words in (
        ("refuse", "failure", "refused"),
        ("no_such", "unknown task", UNKNOWN.get(worker, "no_such")),
    ):
        is_silent = caller in SILENT
        told = crowd.callers[caller].call(f"mx-{worker}", task, timeout=0.5 if is_silent else 20)
        if is_silent:
            assert told.fault in (SILENCE, TIMED_OUT)
        else:
            assert words in told.fault.lower()
        note(caller, worker, case, "silence" if is_silent else "ok")


@pytest.mark.parametrize("worker", [*WORKERS, *UPSTREAM])
def test_a_job_that_takes_too_long_is_ended(crowd: Crowd, worker: str) -> None:
    """All clients at once."""
    callers = callers_of(worker)
    began = time.monotonic()
    threads, answers = together(
        callers, lambda c: crowd.callers[c].call(f"mx-{worker}", "slow", LONG, timeout=1.0)
    )
    for thread in threads:
        thread.join(30)
    assert time.monotonic() - began < 15
    for caller in callers:
        assert answers[caller].fault in (TIMED_OUT, SILENCE), (caller, answers[caller])
        note(caller, worker, "timeout")


@pytest.mark.parametrize(("caller", "worker"), UPSTREAM_PAIRS)
def test_200_calls_at_once_are_answered_to_the_right_callers(
    crowd: Crowd, caller: str, worker: str
) -> None:
    found = crowd.callers[caller].burst(f"mx-{worker}", "echo", list(range(200)))
    assert [_echoed(told.value) for told in found] == list(range(200))
    note(caller, worker, "200 at once")


def _echoed(value: Any) -> Any:
    """A ZSS service that knows the text alone returns named arguments as the map they are."""
    return value["value"] if isinstance(value, dict) else value


@pytest.mark.parametrize(("caller", "worker"), cancels(UPSTREAM_PAIRS))
def test_a_running_job_is_cancelled(crowd: Crowd, caller: str, worker: str) -> None:
    service = f"mx-{worker}"
    # Ours can be stopped; the others run to their end, so they get something short.
    task, seconds = ("patient", 60.0) if worker in WORKERS else ("slow", LONG)
    said = (_cancel_on_node if caller == "zss-npm" else _cancel)(
        crowd, caller, service, task, seconds
    )
    note(caller, worker, "cancel", "unconfirmed" if "confirm" in said else "confirmed")


def _cancel(crowd: Crowd, caller: str, service: str, task: str, seconds: float) -> str:
    job = crowd.clients[caller].submit(service, task, seconds, timeout=60)
    crowd.wait_until_running(service, task)
    said = job.cancel(20)
    with pytest.raises(Cancelled):
        job.result(20)
    return said


def _cancel_on_node(crowd: Crowd, caller: str, service: str, task: str, seconds: float) -> str:
    job = crowd.node.begin_kept(service, task, seconds)
    crowd.wait_until_running(service, task)
    told = crowd.node.call("titanic", "cancel", job)
    ended = crowd.node.call("titanic", "result", job)
    assert ended.fault.startswith("410"), ended
    return str(told.value or told.fault)


@pytest.mark.parametrize("worker", [*WORKERS, *UPSTREAM])
def test_a_killed_workers_jobs_go_to_another(crowd: Crowd, tmp_path: Path, worker: str) -> None:
    """All clients at once: each has a job on the worker that dies."""
    service, callers = f"mx-{worker}", callers_of(worker)
    trace = tmp_path / "trace"
    threads, answers = together(
        callers, lambda c: crowd.callers[c].call(service, "noted", str(trace), 100.0, timeout=60)
    )
    until(
        lambda: trace.exists() and len(trace.read_text().split()) == len(callers),
        "every job has begun",
        30,
    )
    # There before the first one goes: some dialects refuse at once what nobody serves.
    heir = crowd.start(worker)
    crowd.wait_for(service, workers=1 + CREW.get(worker, 1))
    crowd.workers[worker].kill()
    for thread in threads:
        thread.join(90)
    assert answers == dict.fromkeys(callers, Told(heir.pid))
    for caller in callers:
        note(caller, worker, "death")


def test_what_was_found_is_what_the_documentation_shows() -> None:
    """Of the cases that were run, and those that a peer has no word for."""
    for (caller, worker), cells in RESULTS.items():
        if caller in NO_CANCEL:
            cells["cancel"] = "no word"
        if worker in WORDLESS:
            cells |= {"failure": "no word", "unknown task": "no word"}
        assert cells.items() <= expected(caller, worker).items(), (caller, worker)
