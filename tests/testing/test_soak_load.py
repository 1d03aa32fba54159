"""The load of a soak: clients that keep their own lists."""

import threading

import pytest

from dragoman import Worker
from dragoman.testing.harness import LocalBroker
from dragoman.testing.soak.load import SoakCaller


@pytest.mark.process
def test_every_answer_is_on_the_list_and_a_refused_job_is_lost() -> None:
    with LocalBroker("nfp") as broker:
        worker = Worker(broker.url("nfp"), service="soak-x", own_process_beats=False)

        @worker.task
        def echo(value: dict[str, object]) -> object:
            return value if value["n"] != 3 else "wrong"

        with worker:
            caller = SoakCaller("nfp", broker.url("nfp"), ["soak-x"], seed=1)
            caller.start()
            enough = threading.Event()
            while caller.tally.answered < 6:
                enough.wait(0.01)
            assert caller.end(30)
        tally = caller.tally
        assert tally.asked == tally.answered == len(tally.jobs)
        assert tally.wrong == 1
        assert not tally.lost
