"""What programs may do with the task queue; `tests/server/test_queue_tasks.py` has the rest."""

import pytest

from dragoman import Client, DeadLetters, Flow, JobFailed, Schedules


def test_a_program_manages_schedules(url: str) -> None:
    with Client(url) as client:
        schedules = Schedules(client)
        schedules.add("yearly", "math", "add", kwargs={"x": 2, "y": 3}, cron="0 0 1 1 *")
        assert client.job(schedules.run("yearly")).result(20) == 5
        schedules.remove("yearly")


def test_a_program_sees_mistakes(url: str) -> None:
    with Client(url) as client:
        with pytest.raises(JobFailed, match="is not paused"):
            Flow(client).resume("math")
        with pytest.raises(JobFailed, match="is no dead letter"):
            DeadLetters(client).show("nothing")
