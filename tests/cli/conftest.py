"""A broker with a worker, and a way to run commands as a user would."""

from collections.abc import Callable, Iterator

import pytest

from dragoman import Worker
from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.main import app
from dragoman.sdk.context import JobContext
from dragoman.testing.harness import LocalBroker

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with LocalBroker("nfp", "dcp") as broker:
        worker = Worker(broker.url("nfp"), service="math", name="w1", own_process_beats=False)
        worker.task(lambda x, y=0: x + y, name="add")

        @worker.task
        def report(job: JobContext) -> str:
            job.progress({"message": "half way"})
            job.stream(b"piece")
            return "done"

        @worker.task
        def talk(job: JobContext) -> None:
            job.progress({"log": "reads\nwrites"})

        @worker.task
        def boom() -> None:
            raise RuntimeError("boom")

        with worker:
            yield broker.url("nfp")


@pytest.fixture
def run(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("DRAGOMAN_URL", url)

    def command(*words: str) -> tuple[int, str, str]:
        code = run_to_exit_code(lambda: app(list(words)))
        said = capsys.readouterr()
        return code, said.out, said.err

    return command
