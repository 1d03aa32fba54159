"""The table of values and the words of a cancel, over real sockets.

Each client calls the workers of one other dialect. The table itself, for every pair, is made by
`tests/dialects/bridging_values.py` without sockets.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from queue import Queue
from typing import Any

import pytest
from tests.dialects.bridging_values import EQUAL, VALUES, as_argument, as_result

from dragoman import Cancelled, Client, DragomanError, JobContext, Worker
from dragoman.model.content import Unmappable
from dragoman.sdk.cancel_outcomes import CANCELLED, FINISHED, UNCONFIRMED
from dragoman.testing.harness import LocalBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

LINKS = ("nfp", "dcp", "zss", "zss_backend", "memo", "http", "mdp")
#: Client and worker.
PAIRS = (
    ("nfp", "zss"),
    ("zss", "dcp"),
    ("dcp", "memo"),
    ("memo", "http"),
    ("http", "mdp"),
    ("mdp", "nfp"),
)

STARTED: Queue[str] = Queue()
GO_ON = threading.Event()


def start(site: LocalBroker, dialect: str) -> Worker:
    url = site.url(dialect, for_workers=True)
    worker = Worker(url, service=f"v-{dialect}", own_process_beats=False)

    @worker.task
    def give(name: str) -> object:
        return VALUES[name]

    @worker.task
    def show(value: object) -> str:
        return repr(value)

    @worker.task
    def wait(job: JobContext) -> None:
        STARTED.put("wait")
        while not job.is_cancelled:
            GO_ON.wait(0.05)

    @worker.task
    def deaf() -> None:
        GO_ON.clear()
        STARTED.put("deaf")
        GO_ON.wait(60)

    return worker


@pytest.fixture(scope="module")
def site() -> Iterator[LocalBroker]:
    with LocalBroker(*LINKS) as broker, ExitStack() as workers:
        for _, worker in PAIRS:
            workers.enter_context(start(broker, worker))
        yield broker


def became(value: object, received: str) -> str:
    """Write an outcome as the table does."""
    if received == repr(value):
        return EQUAL
    return f"changed to `{received if len(received) < 60 else received[:57] + '...'}`"


def outcome(value: object, receive: Callable[[], str]) -> str:
    try:
        return became(value, receive())
    except (DragomanError, Unmappable):
        return "refused"


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_values_cross_as_the_table_says(site: LocalBroker, pair: tuple[str, str]) -> None:
    client, worker = pair
    service = f"v-{worker}"
    with Client(site.url(client)) as asking:
        for name, value in VALUES.items():
            for task, argument, expected in (
                ("give", name, as_result(value, pair)),
                ("show", value, as_argument(value, pair)),
            ):
                expected = expected.partition(":")[0] if "refused" in expected else expected
                if client == "memo" and expected == "refused":
                    continue  # A fault is silence to memo clients.

                def receive(task: str = task, argument: Any = argument) -> str:
                    found = asking.call(service, task, argument, timeout=30)
                    return repr(found) if task == "give" else str(found)

                assert outcome(value, receive) == expected, (name, task)


@pytest.mark.parametrize("client", ["nfp", "dcp", "zss", "http"])
def test_a_cancel_has_the_same_words_in_every_dialect(site: LocalBroker, client: str) -> None:
    with Client(site.url(client)) as asking:
        running = asking.submit("v-nfp", "wait", timeout=60)
        STARTED.get(timeout=30)
        assert running.cancel(30) == CANCELLED
        with pytest.raises(Cancelled):
            running.result(30)
        assert running.cancel(30) == FINISHED
        deaf = asking.submit("v-memo", "deaf", timeout=60)
        STARTED.get(timeout=30)
        assert deaf.cancel(30) == UNCONFIRMED
        GO_ON.set()
