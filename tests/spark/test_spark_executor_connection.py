"""One connection per process, a window of calls, and an outcome for each of them."""

import threading

import pytest
from tests.spark.conftest import Score

from dragoman import Worker
from dragoman.model.content import Call
from dragoman.spark import executor_connection
from dragoman.spark.executor_connection import (
    CallTerms,
    ExecutorConnection,
    close_connections,
    connection_to,
)
from dragoman.spark.rows import Failure
from dragoman.testing.harness import LocalBroker


def doubles(service: str, count: int, start: int = 0) -> list[tuple[str, Call]]:
    return [
        (f"{service}-{n}", Call("double", (), {"x": n}, timeout=30.0))
        for n in range(start, start + count)
    ]


@pytest.mark.parametrize("dialect", ["nfp", "http", "dcp"])
def test_outcomes_come_in_the_order_of_the_calls(
    broker: LocalBroker, score: Score, service: str, dialect: str
) -> None:
    found = connection_to(broker.url(dialect)).call_all(
        doubles(service, 300), CallTerms(service, window=50)
    )
    assert found == [2 * n for n in range(300)]


def test_calls_with_one_id_are_one_call(broker: LocalBroker, score: Score, service: str) -> None:
    calls = doubles(service, 3) * 2
    assert connection_to(broker.url("nfp")).call_all(calls, CallTerms(service)) == [
        0,
        2,
        4,
        0,
        2,
        4,
    ]
    assert score.asked == {0: 1, 1: 1, 2: 1}


def test_another_process_asking_for_the_same_gets_the_same_answer(
    broker: LocalBroker, score: Score, service: str
) -> None:
    connection_to(broker.url("nfp")).call_all(doubles(service, 20), CallTerms(service))
    other = ExecutorConnection(broker.url("nfp"))
    assert other.call_all(doubles(service, 20), CallTerms(service)) == [2 * n for n in range(20)]
    other.close()
    assert set(score.asked.values()) == {1}


def test_no_more_than_the_window_is_open(broker: LocalBroker, service: str) -> None:
    lock, open_now, most = threading.Lock(), 0, 0
    worker = Worker(broker.url("nfp"), service, concurrency=32, own_process_beats=False)

    @worker.task
    def double(x: int) -> int:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        threading.Event().wait(0.005)
        with lock:
            open_now -= 1
        return 2 * x

    with worker:
        connection_to(broker.url("nfp")).call_all(
            doubles(service, 60), CallTerms(service, window=4)
        )
    assert 1 <= most <= 4


def test_the_line_of_a_process_is_kept_and_can_be_hung_up(broker: LocalBroker) -> None:
    first = connection_to(broker.url("nfp"))
    assert connection_to(broker.url("nfp")) is first
    close_connections()
    assert connection_to(broker.url("nfp")) is not first


@pytest.mark.process
def test_a_job_that_was_refused_is_asked_for_again_until_there_is_a_worker(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_connection, "_PAUSE", 0.01)
    with LocalBroker("nfp", nfp={"patience": 0}) as broker:
        connection = ExecutorConnection(broker.url("nfp"))
        (found,) = connection.call_all(doubles(service, 1), CallTerms(service, retries=2))
        assert isinstance(found, Failure)
        assert (found.code, found.is_definite) == ("no_worker", True)
        worker = Worker(broker.url("nfp"), service, own_process_beats=False)
        worker.task(lambda x: 2 * x, name="double")
        with worker:
            assert connection.call_all(doubles(service, 1, 1), CallTerms(service)) == [2]
            assert connection.call_all(doubles(service, 1), CallTerms(service)) == [0]
        connection.close()


@pytest.mark.process
def test_a_call_that_expired_in_the_queue_is_made_again_under_another_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor_connection, "_PAUSE", 0.01)
    services = {"later": {"queue_timeout": 0.3}}
    with LocalBroker("nfp", services=services) as broker:
        connection = ExecutorConnection(broker.url("nfp"))
        (found,) = connection.call_all(doubles("later", 1), CallTerms("later", retries=0))
        assert isinstance(found, Failure)
        assert found.code == "queue_timeout"
        worker = Worker(broker.url("nfp"), "later", own_process_beats=False)
        worker.task(lambda x: 2 * x, name="double")
        with worker:
            assert connection.call_all(doubles("later", 1), CallTerms("later", retries=1)) == [0]
        connection.close()


def test_a_broker_that_is_not_there_is_a_fault_of_every_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor_connection, "MARGIN", 0.1)
    connection = ExecutorConnection("nfp://127.0.0.1:9")
    found = connection.call_all(doubles("s", 3), CallTerms("s", timeout=0.2))
    assert [(each.code, each.is_definite) for each in found] == [("unreachable", False)] * 3
    connection.close()


def test_what_a_dialect_cannot_carry_is_a_fault_of_that_call(
    broker: LocalBroker, score: Score, service: str
) -> None:
    calls = [("a", Call("say", (float("inf"),))), ("b", Call("say", (1,)))]
    odd, even = connection_to(broker.url("http")).call_all(calls, CallTerms(service))
    assert (odd.code, odd.is_definite) == ("unmappable", True)
    assert even == 1
