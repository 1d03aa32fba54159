"""What a task prints comes to its job as progress, in bounded reports."""

from collections.abc import Callable
from typing import Any

import pytest

from dragoman import Client, Progress, Worker
from dragoman.dialects.peer_sides import Unsupported
from dragoman.sdk import log_lines
from dragoman.sdk.log_lines import LONGEST, LogLines
from dragoman.testing.harness import LocalBroker


class Scene:
    """Log lines whose timers run by hand."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.timers: list[Callable[[], None]] = []
        self.lines = LogLines("w1", self._send, lambda seconds, work: self.timers.append(work))
        self.is_refused = False

    def _send(self, ticket: str, event: object) -> None:
        if self.is_refused:
            raise Unsupported("no progress here")
        self.sent.append((ticket, event))

    def wait(self) -> None:
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()

    def texts(self) -> list[str]:
        return [event["log"] for _, event in self.sent]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_lines_that_come_together_are_one_report_of_their_job(scene: Scene) -> None:
    for ticket, text in (("j1", "one\n"), ("j2", "other\n"), ("j1", "two\n")):
        scene.lines.add(ticket, text)
    assert scene.sent == []
    scene.wait()
    assert scene.sent == [("j1", {"log": "one\ntwo"}), ("j2", {"log": "other"})]
    scene.lines.add("j1", "three\n")
    scene.wait()
    assert scene.texts()[-1] == "three"


def test_the_rest_is_sent_before_the_job_ends_and_nothing_after(scene: Scene) -> None:
    scene.lines.add("j1", "last\n")
    scene.lines.end("j1")
    scene.lines.end("j1")
    scene.wait()
    assert scene.texts() == ["last"]


def test_a_burst_is_cut_to_its_last_lines_and_says_so(scene: Scene) -> None:
    for number in range(10_000):
        scene.lines.add("j1", f"line {number}\n")
    scene.wait()
    (text,) = scene.texts()
    assert len(text) < LONGEST + 100
    assert text.startswith("(9")
    assert text.endswith("line 9999")


def test_a_job_that_prints_without_end_is_cut_off(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_lines, "MOST", 100)
    for _ in range(10):
        scene.lines.add("j1", "x" * 39 + "\n")
        scene.wait()
    assert len(scene.sent) == 3
    assert scene.texts()[-1].endswith("(more output of this job is not sent)")


def test_text_that_cannot_be_encoded_is_sent_with_marks(scene: Scene) -> None:
    scene.lines.add("j1", "bad \udcff\n")
    scene.wait()
    assert scene.texts() == ["bad ?"]


def test_a_dialect_without_progress_gets_no_lines(scene: Scene) -> None:
    scene.is_refused = True
    scene.lines.add("j1", "one\n")
    scene.wait()
    scene.lines.add("j1", "two\n")
    assert (scene.sent, scene.timers) == ([], [])


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "http"])
def test_a_client_gets_what_the_task_prints(dialect: str) -> None:
    with LocalBroker("nfp", "dcp", "http") as broker:
        worker = Worker(broker.url(dialect), "svc", own_process_beats=False, log_lines=True)

        @worker.task
        def talk() -> str:
            print("reading the file")
            print("3 rows")
            return "done"

        with worker, Client(broker.url("nfp")) as client:
            job = client.submit("svc", "talk")
            reports = [e.event for e in job.events(20) if isinstance(e, Progress)]
            assert reports == [{"log": "reading the file\n3 rows"}]
            assert job.result(20) == "done"
