"""Client, broker and worker ends wired together in memory, over requests as SP has them."""

import pytest
from tests.dialects.memo01_fabric import ClientShell, MemoFabric, WorkerShell

from dragoman.dialects.memo01.client_side import MemoClientSide
from dragoman.dialects.memo01.settings import MemoSettings
from dragoman.dialects.memo01.wire import MemoJob, encode
from dragoman.dialects.peer_sides import Finished, Submission
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.record import Kind


@pytest.fixture
def fabric() -> MemoFabric:
    return MemoFabric()


def test_a_call_goes_to_a_worker_and_its_value_comes_back(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    client.submit("j", Call("add", (2,), {"y": 3}, timeout=7.5))
    work = worker.work[0]
    assert (work.call, work.service, work.timeout) == (Call("add", (2,), {"y": 3}), "math", 7.5)
    worker.finish(value=5)
    assert client.finished["j"] == Finished(
        JobId("j"), (Answer(value=5),), None, JobState.SUCCEEDED
    )
    assert fabric.kinds() == ["joined", "submitted", "dispatched", "ended"]


def test_raw_bytes_pass_untouched(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    client.submit("j", Call(raw=b"\x00\xff"))
    assert worker.work[0].call == Call(raw=b"\x00\xff")
    worker.finish(raw=b"\x01")
    assert client.finished["j"].answers == (Answer(raw=b"\x01"),)


def test_a_caller_without_the_tag_is_answered_without_it(fabric: MemoFabric) -> None:
    worker, heard = WorkerShell(fabric), list[bytes]()
    message = encode(MemoJob(b"", "math", 1000, bytes.fromhex("a1647461736b63616464")))
    fabric.request(fabric.connect(), message, heard.append)
    assert worker.work[0].call == Call("add")
    worker.finish(value=5)
    assert heard == [bytes.fromhex("83666d656d6f3031034005")]


def test_a_job_waits_for_a_worker(fabric: MemoFabric) -> None:
    client = ClientShell(fabric)
    client.submit("j", Call("add"))
    fabric.wait(9.0)
    worker = WorkerShell(fabric)
    worker.finish(value=1)
    assert client.finished["j"].state is JobState.SUCCEEDED


def test_a_job_nobody_takes_is_dropped_in_silence_and_on_record(fabric: MemoFabric) -> None:
    client = ClientShell(fabric)
    address = client.submit("j", Call("add"))
    fabric.wait(30.0)
    assert address in fabric.open
    assert fabric.records[-1].fault in (FaultCode.NO_WORKER, FaultCode.QUEUE_TIMEOUT)
    client.hear([b"j"])
    fault = client.finished["j"].fault
    assert fault is not None
    assert (fault.code, fault.is_definite) == (FaultCode.JOB_TIMEOUT, False)


def test_slots_run_jobs_side_by_side_on_one_connection(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric, slots=3), ClientShell(fabric)
    for n in range(5):
        client.submit(f"j{n}", Call("add", (n,)))
    assert len(worker.work) == 3
    while worker.work:
        worker.finish(value=worker.work[0].call.args[0])
    assert {j: f.answers[0].value for j, f in client.finished.items()} == {
        f"j{n}": n for n in range(5)
    }


def test_a_worker_with_several_services_gets_the_jobs_of_all(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric, ("long-name", "math", "b")), ClientShell(fabric)
    for service in ("b", "long-name", "math"):
        client.submit(service, Call("t"), service)
        assert worker.finish(value=1).service == service
    assert len(client.finished) == 3


def test_an_idle_worker_answers_heartbeats_for_as_long_as_it_is_asked(fabric: MemoFabric) -> None:
    worker = WorkerShell(fabric)
    fabric.wait(61.0)
    assert worker.beats == 6
    ClientShell(fabric).submit("j", Call("add"))
    assert len(worker.work) == 1


def test_a_long_job_is_not_disturbed(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    WorkerShell(fabric)
    client.submit("j", Call("add", timeout=3600.0))
    fabric.wait(3599.0)
    worker.finish(value=1)
    assert client.finished["j"].state is JobState.SUCCEEDED
    assert fabric.kinds().count("dispatched") == 1


def test_a_job_that_runs_too_long_is_dropped_and_its_worker_starts_anew(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    client.submit("j", Call("add", timeout=1.0))
    fabric.wait(1.5)
    worker.finish(value=1)
    assert "late" in fabric.kinds()
    assert client.finished == {}
    client.submit("k", Call("add", timeout=1.0))
    worker.finish(value=2)
    assert client.finished["k"].answers == (Answer(value=2),)


def test_the_job_of_a_lost_worker_goes_to_another(fabric: MemoFabric) -> None:
    first, client = WorkerShell(fabric), ClientShell(fabric)
    client.submit("j", Call("add"))
    assert first.work
    second = WorkerShell(fabric)
    fabric.disconnect(first.connection)
    fabric.wait(4.9)
    assert not second.work
    fabric.wait(5.1)
    second.finish(value=2)
    assert client.finished["j"].answers == (Answer(value=2),)


def test_a_job_that_loses_every_worker_is_dead_after_three(fabric: MemoFabric) -> None:
    client = ClientShell(fabric)
    address = client.submit("j", Call("add"))
    for _ in range(3):
        worker = WorkerShell(fabric)
        assert worker.work
        fabric.disconnect(worker.connection)
        fabric.wait(fabric.now + 6)
    assert fabric.records[-1].state == JobState.DEAD
    assert address in fabric.open


def test_a_worker_that_reconnects_in_mid_job_brings_its_result(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    client.submit("j", Call("add"))
    fabric.disconnect(worker.connection)
    worker.connection = fabric.connect()
    worker.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)
    assert fabric.kinds().count("dispatched") == 1


def test_workers_come_back_after_a_restart_of_the_broker(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric, slots=2), ClientShell(fabric)
    fabric.restart()
    worker.connection = fabric.connect()
    worker.say(worker.side.join())
    client.submit("k", Call("add"))
    client.submit("l", Call("add"))
    assert len(worker.work) == 2


def test_a_job_that_runs_during_a_restart_is_not_run_twice(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    address = client.submit("j", Call("add"))
    fabric.restart()
    other = WorkerShell(fabric)
    client.again("j", address)
    worker.connection = fabric.connect()
    worker.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)
    assert not other.work
    assert fabric.kinds().count("dispatched") == 1
    # Its worker was told DISCONNECT, and is there again.
    client.submit("k", Call("add"))
    client.submit("l", Call("add"))
    assert len(worker.work) == len(other.work) == 1


def test_a_result_that_equals_the_one_before_counts_after_a_restart(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    client.submit("j", Call("add"))
    worker.finish(value="done")
    address = client.submit("k", Call("add"))
    fabric.restart()
    client.again("k", address)
    worker.connection = fabric.connect()
    worker.finish(value="done")
    assert client.finished["k"].answers == (Answer(value="done"),)
    assert fabric.kinds().count("dispatched") == 2
    assert not worker.work


@pytest.mark.parametrize("is_idle", [False, True], ids=["RESULT", "HEARTBEAT"])
def test_a_job_that_is_lost_at_a_hand_over_is_sent_again_at_once(
    fabric: MemoFabric, is_idle: bool
) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    client.submit("j", Call("add"))
    worker.finish(value="done")
    if is_idle:
        fabric.wait(fabric.now + MemoSettings().beat_every)
        assert worker.beats == 1
    # The old leader has recorded the dispatch; its message does not arrive.
    fabric.open.clear()
    address = client.submit("k", Call("add"))
    assert not worker.work
    fabric.restart()
    client.again("k", address)
    worker.again()
    assert len(worker.work) == 1
    worker.finish(value="done")
    assert client.finished["k"].answers == (Answer(value="done"),)
    assert [r.fault for r in fabric.records if r.kind == Kind.REQUEUED] == ["handed_back"]


def test_a_job_that_waits_during_a_restart_is_not_asked_for_twice(fabric: MemoFabric) -> None:
    client = ClientShell(fabric)
    address = client.submit("j", Call("add", timeout=2.5))
    fabric.restart()
    client.again("j", address)
    worker = WorkerShell(fabric)
    assert worker.work[0].timeout == 2.5
    worker.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)
    assert not worker.work


@pytest.mark.parametrize("answer", [Answer(value=1), Answer(raw=b"x"), Answer(raw=b"")])
def test_an_answer_lost_in_a_restart_is_given_again(fabric: MemoFabric, answer: Answer) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    address = client.submit("j", Call("add"))
    fabric.disconnect(client.connection)
    worker.finish(value=answer.value, raw=answer.raw)
    fabric.restart()
    client.again("j", address)
    assert client.finished["j"].answers == (answer,)


def test_a_job_that_failed_before_a_restart_is_tried_again(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    address = client.submit("j", Call("add"))
    worker.finish(fault=Fault(FaultCode.TASK_FAILED))
    fabric.restart()
    worker = WorkerShell(fabric)
    client.again("j", address)
    worker.finish(value=2)
    assert client.finished["j"].answers == (Answer(value=2),)


def test_a_task_that_fails_is_a_failed_job_and_silence_for_the_client(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    client.submit("j", Call("div", (1, 0)))
    worker.finish(fault=Fault(FaultCode.TASK_FAILED, "ZeroDivisionError"))
    ended = fabric.records[-1]
    assert (ended.kind, ended.state, ended.detail) == (Kind.ENDED, "failed", "ZeroDivisionError")
    assert client.finished == {}
    client.submit("k", Call("add"))
    assert worker.work


def test_a_job_handed_back_goes_to_another_worker(fabric: MemoFabric) -> None:
    first, client = WorkerShell(fabric), ClientShell(fabric)
    client.submit("j", Call("add"))
    second = WorkerShell(fabric)
    first.say(first.side.hand_back(first.work.popleft().ticket))
    second.finish(value=2)
    assert client.finished["j"].answers == (Answer(value=2),)


def test_a_worker_that_leaves_gives_its_last_result_and_gets_no_more(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    client.submit("j", Call("add"))
    assert worker.side.leave() == []
    worker.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)
    client.submit("k", Call("add"))
    assert not worker.work
    assert "left" in fabric.kinds()


def test_a_job_that_crosses_with_a_leave_is_handed_back(fabric: MemoFabric) -> None:
    leaving, client = WorkerShell(fabric), ClientShell(fabric)
    leaving.side.leave()
    client.submit("j", Call("add"))
    assert not leaving.work
    other = WorkerShell(fabric)
    other.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)


def test_a_memoised_service_answers_the_same_question_from_memory() -> None:
    fabric = MemoFabric(MemoSettings(memoized=frozenset({"math"})))
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    client.submit("j", Call("add", (1,)))
    worker.finish(value=2)
    client.submit("k", Call("add", (1,)))
    assert not worker.work
    assert client.finished["k"].answers == (Answer(value=2),)
    client.submit("l", Call("add", (2,)))
    assert worker.work


def test_a_resent_request_runs_once_and_each_connection_is_answered(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    address = client.submit("j", Call("add"))
    ((_, message, _wait),) = MemoClientSide().submit(Submission(JobId("j"), "math", Call("add")))
    heard: list[bytes] = []
    other = fabric.connect() + address[8:]
    fabric.open[other] = heard.append
    for _ in range(3):
        fabric.take(fabric.side.receive(other, [message], fabric.now))
        fabric.take(fabric.side.receive(address, [message], fabric.now))
    worker.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)
    assert len(heard) == 1
    assert fabric.kinds().count("dispatched") == 1


def test_a_resend_after_the_answer_is_answered_from_the_broker(fabric: MemoFabric) -> None:
    worker, client = WorkerShell(fabric), ClientShell(fabric)
    address = client.submit("j", Call("add"))
    fabric.disconnect(client.connection)
    worker.finish(value=1)
    client.again("j", address)
    assert client.finished["j"].answers == (Answer(value=1),)
    assert not worker.work
